"""Scratch arrays: zeros in memory, or in a file without a name if they are large."""

import mmap
import os
import pickle
import stat

import joblib
import numpy as np
import pytest

from tests.data.internals import scratch_array


@pytest.mark.parametrize("limit", [0, 2**20])
def test_a_scratch_array_is_writable_zeros(limit):
    codes = scratch_array((7, 3), np.uint16, limit=limit)
    assert codes.shape == (7, 3)
    assert codes.dtype == np.uint16
    assert not codes.any()
    codes[3] = 9
    assert codes.sum() == 27
    copy = pickle.loads(pickle.dumps(codes))
    assert isinstance(copy, np.ndarray)
    assert copy.sum() == 27
    if limit == 0:  # another process gets the values of the file
        (total,) = joblib.Parallel(n_jobs=2)([joblib.delayed(np.sum)(codes)])
        assert total == 27


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists open files by /proc")
def test_a_large_scratch_array_has_no_name_and_one_reader(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = []

    def mapped(descriptor, size, inner=mmap.mmap):
        made.append(os.fstat(descriptor))
        return inner(descriptor, size)

    monkeypatch.setattr(mmap, "mmap", mapped)
    codes = scratch_array((100, 100), np.uint8, limit=0)
    codes[:] = 1
    (status,) = made
    assert status.st_nlink == 0
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_blocks * 512 >= codes.nbytes
    assert os.listdir(tmp_path) == []


def test_a_scratch_array_reserves_its_space_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OSError, match="TMPDIR"):
        scratch_array((2**30, 2**30), np.uint8)
