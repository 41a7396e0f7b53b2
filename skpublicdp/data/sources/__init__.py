"""One class for each container that rows come in; `skpublicdp.data.streaming` is their front."""
