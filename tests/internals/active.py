"""Internal names of active that tests use."""

from skpublicdp.active import subsampling_plan
