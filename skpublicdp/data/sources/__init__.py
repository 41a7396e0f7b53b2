"""Reader classes for containers of rows, among which `skpublicdp.data.streaming` selects."""
