"""One reader class for each container of rows; `skpublicdp.data.streaming` chooses one."""
