"""Embed sentences by a public model, for the benchmarks of linear models.

``python benchmarks/embed_sentences.py ARCHIVE DIRECTORY`` needs an environment with wordllama,
whose wheel has the weights of a model with 256 columns. ARCHIVE is ``hutto_ICWSM_2014.tar.gz`` from
the source archive of vaderSentiment 3.3.2 on PyPI. A label says whether the mean rating of a
sentence is positive. DIRECTORY receives ``sentences.npz`` (10,605 sentences of film reviews) and
``reviews.npz`` (3,708 sentences of reviews of products).
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

import numpy as np
import wordllama

SOURCES = {
    "sentences": "movieReviewSnippets_GroundTruth.txt",
    "reviews": "amazonReviewSnippets_GroundTruth.txt",
}
BATCH = 512


def load_model():
    """Return the model, whose tokenizer the package looks for in another folder of the wheel."""
    package = Path(wordllama.__file__).parent
    (package / "tokenizer").mkdir(exist_ok=True)
    for path in (package / "tokenizers").glob("*.json"):
        shutil.copy(path, package / "tokenizer" / path.name)
    return wordllama.WordLlama.load()


def read_sentences(archive, name):
    """Return the sentences of one file of the archive, and their mean ratings."""
    with tarfile.open(archive) as files:
        member = next(file for file in files.getmembers() if file.name.endswith(name))
        lines = files.extractfile(member).read().decode("utf8", errors="replace").splitlines()
    cells = [line.split("\t") for line in lines if line.count("\t") >= 2]
    sentences = [text.strip() or "x" for _, _, text, *_ in cells]
    return sentences, np.array([float(rating) for _, rating, *_ in cells])


def main(archive, directory):
    """Embed the sentences of all files, and normalise the lengths of their embeddings."""
    model = load_model()
    for name, source in SOURCES.items():
        sentences, ratings = read_sentences(archive, source)
        starts = range(0, len(sentences), BATCH)
        X = np.vstack([model.embed(sentences[start : start + BATCH]) for start in starts])
        X = X.astype(np.float64)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        np.savez(Path(directory) / f"{name}.npz", X=X, y=(ratings > 0).astype(int))


if __name__ == "__main__":
    main(*sys.argv[1:])
