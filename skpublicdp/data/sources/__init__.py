"""Reader classes for containers of rows, selected by `skpublicdp.data.streaming`."""
