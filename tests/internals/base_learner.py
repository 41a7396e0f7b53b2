"""Internal names of what fits the base learners that tests use."""

from skpublicdp.base_learner import check_base, fit_base, mechanism_event, quietly, seeded_clone
