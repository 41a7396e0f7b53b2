"""One class for each container that rows come in; `skpublicdp.data.rows` is their front."""
