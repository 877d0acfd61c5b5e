"""Kinds of arrays, without NumPy and with it; the kernels that apply a bitmask."""

import array
import random

import pytest
from conftest import legal_bits

import ffwd

INF = float("-inf")


@pytest.fixture()
def matcher(real_compiler):
    return real_compiler.compile(ffwd.Constraint.regex("[a-c]+x?")).matcher()


def plain(matcher, rows=1):
    words = matcher.vocabulary.bitmask_words
    return memoryview(bytearray(4 * rows * words)).cast("i", (rows, words))


def expected_row(matcher):
    buffer = plain(matcher)
    matcher.fill_next_token_bitmask(buffer)
    return buffer.tolist()[0]


# Without NumPy.


def test_buffers_of_python_are_filled(matcher):
    words = matcher.vocabulary.bitmask_words
    row = expected_row(matcher)
    legal = legal_bits(row)
    assert len(legal) == matcher.count_legal_tokens() > 0
    for token in range(matcher.vocabulary.logits_size):
        assert (token in legal) == matcher.fork().accept_token(token)
    two = plain(matcher, 2)
    matcher.fill_next_token_bitmask(two, 1)
    assert two.tolist() == [[0] * words, row]
    flat = array.array("i", [7] * (words + 2))
    matcher.fill_next_token_bitmask(flat)
    assert flat.tolist() == [*row, 0, 0], "a row that is too long is overwritten wholly"


def test_without_numpy_the_bitmask_is_a_memoryview(real, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "numpy", None)
    bitmask = ffwd.allocate_token_bitmask(3, real)
    assert isinstance(bitmask, memoryview) and bitmask.format == "i"
    assert bitmask.shape == (3, real.bitmask_words)
    assert bitmask.tolist() == [[-1] * real.bitmask_words] * 3
    with pytest.raises(ValueError, match="empty"):
        ffwd.allocate_token_bitmask(0, real)


def test_buffers_of_floats_are_masked():
    rng = random.Random(2)
    for width in [1, 31, 32, 33, 100]:
        words = -(-width // 32)
        mask = array.array("I", [rng.choice([0, 2**32 - 1, rng.getrandbits(32)]) for _ in range(words)])
        data = [rng.randrange(-8, 8) / 2 for _ in range(width)]
        logits = array.array("f", data)
        ffwd.apply_token_bitmask_inplace(logits, mask)
        legal = legal_bits(mask)
        assert logits.tolist() == [x if i in legal else INF for i, x in enumerate(data)]


def test_the_import_needs_neither_numpy_nor_torch(tmp_path):
    import subprocess
    import sys

    code = "import sys, ffwd; print(sorted({'numpy', 'torch', 'ctypes'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


@pytest.mark.parametrize(
    "buffer, text",
    [
        (bytearray(64), "type"),
        (bytes(64), "type"),
        (array.array("d", [0.0] * 64), "type"),
        (array.array("i", [0]), "the vocabulary needs"),
        (array.array("i"), "empty"),
        (memoryview(bytes(4000)).cast("i"), "read-only"),
        (memoryview(array.array("i", [0] * 4000))[::2], "contiguous"),
        (memoryview(bytearray(4000)).cast("i", (10, 10, 10)), "dimensions"),
    ],
)
def test_other_buffers_are_refused(matcher, buffer, text):
    with pytest.raises(ValueError, match=text):
        matcher.fill_next_token_bitmask(buffer)


def test_other_objects_are_refused(matcher):
    for value in [None, 7, "text", [0] * 4000, object()]:
        with pytest.raises(TypeError, match="expected a NumPy array"):
            matcher.fill_next_token_bitmask(value)
    for index in [-1, 1, 2**62]:
        with pytest.raises(ValueError, match="out of range"):
            matcher.fill_next_token_bitmask(plain(matcher), index)


def test_a_buffer_is_free_after_the_call(matcher):
    buffer = bytearray(4 * matcher.vocabulary.bitmask_words)
    matcher.fill_next_token_bitmask(memoryview(buffer).cast("i"))
    buffer.extend(b"x")  # raises BufferError while it is exported


# With NumPy.


def test_numpy_arrays_are_filled(matcher):
    numpy = pytest.importorskip("numpy")
    words = matcher.vocabulary.bitmask_words
    row = numpy.array(expected_row(matcher), dtype=numpy.int32)
    bitmask = ffwd.allocate_token_bitmask(3, matcher.vocabulary)
    assert bitmask.dtype == numpy.int32 and bitmask.shape == (3, words) and (bitmask == -1).all()
    matcher.fill_next_token_bitmask(bitmask, 2)
    assert (bitmask[2] == row).all() and (bitmask[:2] == -1).all()
    apart = numpy.zeros((6, words + 3), dtype=numpy.uint32)
    matcher.fill_next_token_bitmask(apart[::2, :words], 1)
    assert (apart[2, :words].view(numpy.int32) == row).all()
    assert not apart[2, words:].any() and not apart[[0, 1, 3, 4, 5]].any()


def test_other_numpy_arrays_are_refused(matcher):
    numpy = pytest.importorskip("numpy")
    words = matcher.vocabulary.bitmask_words
    good = numpy.zeros((2, words), dtype=numpy.int32)
    frozen = good.copy()
    frozen.flags.writeable = False
    unaligned = numpy.zeros(4 * words + 1, dtype=numpy.uint8)[1:].view(numpy.int32)
    for bad, text in [
        (good.astype(numpy.int64), "type"),
        (good.astype(numpy.float32), "type|Float32"),
        (good.astype(">i4"), "type"),
        (good.astype(object), "type"),
        (good[:, :-1], "the vocabulary needs"),
        (numpy.zeros((2, 2 * words), dtype=numpy.int32)[:, ::2], "contiguous"),
        (numpy.asfortranarray(good), "contiguous"),
        (good[::-1], "overlap"),
        (numpy.lib.stride_tricks.as_strided(good, (2, words), (0, 4)), "overlap"),
        (good[None], "dimensions"),
        (numpy.int32(7), "dimensions"),
        (frozen, "read-only"),
        (unaligned, "aligned"),
        (numpy.zeros((0, words), dtype=numpy.int32), "out of range"),
    ]:
        with pytest.raises(ValueError, match=text):
            matcher.fill_next_token_bitmask(bad)


class Dlpack:
    """An array that has nothing but `__dlpack__`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Elsewhere(Dlpack):
    def __dlpack_device__(self):
        return (2, 0)


def test_dlpack_arrays_are_filled_and_masked(matcher):
    numpy = pytest.importorskip("numpy")
    bitmask = ffwd.allocate_token_bitmask(2, matcher.vocabulary)
    matcher.fill_next_token_bitmask(Dlpack(bitmask), 1)
    assert bitmask[1].tolist() == expected_row(matcher) and (bitmask[0] == -1).all()
    with pytest.raises(ValueError, match="device"):
        matcher.fill_next_token_bitmask(Elsewhere(bitmask))
    with pytest.raises(ValueError, match="type"):
        matcher.fill_next_token_bitmask(Dlpack(bitmask.astype(numpy.int64)))
    wide = numpy.zeros((2, 2 * bitmask.shape[1]), dtype=numpy.int32)
    with pytest.raises(ValueError, match="contiguous"):
        matcher.fill_next_token_bitmask(Dlpack(wide[:, ::2]))
    logits = numpy.ones((2, matcher.vocabulary.logits_size), dtype=numpy.float16)
    ffwd.apply_token_bitmask_inplace(Dlpack(logits), Dlpack(bitmask))
    assert (logits[0] == 1).all()
    legal = legal_bits(bitmask[1].tolist())
    assert {int(i) for i in numpy.flatnonzero(logits[1] == 1)} == legal


def masked(numpy, logits, bitmask):
    """The reference: one bit for each logit."""
    bits = numpy.unpackbits(bitmask.view(numpy.uint8), axis=1, bitorder="little")
    result = logits.copy()
    result[bits[:, : logits.shape[1]] == 0] = -numpy.inf
    return result


@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
def test_applied_masks_equal_the_reference(type_name):
    numpy = pytest.importorskip("numpy")
    if type_name == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    else:
        dtype = numpy.dtype(type_name)
    rng = numpy.random.default_rng(4)
    for rows, width in [(1, 1), (3, 31), (2, 64), (5, 1000), (1, 70_001), (9, 50_000)]:
        words = -(-width // 32)
        bitmask = rng.integers(-(2**31), 2**31, (rows, words), dtype=numpy.int32)
        bitmask[rng.random((rows, words)) < 0.3] = -1
        bitmask[rng.random((rows, words)) < 0.3] = 0
        logits = rng.standard_normal((rows, width)).astype(dtype)
        want = masked(numpy, logits, bitmask)
        whole = numpy.full((rows, width + 5), 3, dtype=dtype)
        whole[:, :width] = logits
        before = bitmask.copy()
        ffwd.apply_token_bitmask_inplace(logits, bitmask)
        assert logits.tobytes() == want.tobytes()
        ffwd.apply_token_bitmask_inplace(whole[:, :width], bitmask)
        assert whole[:, :width].tobytes() == want.tobytes(), "rows may be apart"
        assert (whole[:, width:] == 3).all() and (bitmask == before).all()


def test_applied_rows_can_be_chosen():
    numpy = pytest.importorskip("numpy")
    bitmask = numpy.zeros((4, 2), dtype=numpy.int32)
    bitmask.flags.writeable = False
    logits = numpy.ones((3, 40), dtype=numpy.float32)
    ffwd.apply_token_bitmask_inplace(logits, bitmask, indices=[2, 0])
    assert (logits[[0, 2]] == -numpy.inf).all() and (logits[1] == 1).all()


def test_other_logits_are_refused():
    numpy = pytest.importorskip("numpy")
    bitmask = numpy.zeros((2, 2), dtype=numpy.int32)
    for logits, text in [
        (numpy.zeros((2, 65), numpy.float32), "words"),
        (numpy.zeros((2, 32), numpy.float32), "words of bitmask"),
        (numpy.zeros((3, 64), numpy.float32), "rows"),
        (numpy.zeros((2, 64), numpy.float64), "type"),
        (numpy.zeros((2, 64), numpy.int32), "type"),
        (numpy.zeros((2, 64), numpy.uint16), "type"),
        (numpy.zeros((2, 128), numpy.float32)[:, ::2], "contiguous"),
    ]:
        with pytest.raises(ValueError, match=text):
            ffwd.apply_token_bitmask_inplace(logits, bitmask)
    logits = numpy.zeros((2, 64), numpy.float32)
    for indices, text in [([0, 0], "twice"), ([2], "out of range"), ([-1], "out of range")]:
        with pytest.raises(ValueError, match=text):
            ffwd.apply_token_bitmask_inplace(logits, bitmask, indices=indices)
    shared = numpy.zeros((1, 4), numpy.int32)
    with pytest.raises(ValueError, match="share memory"):
        ffwd.apply_token_bitmask_inplace(shared.view(numpy.float32), shared[:, :1])


# With torch.


def torch_or_skip():
    return pytest.importorskip("torch", reason="torch is not installed: tensors are not tested")


def test_torch_tensors_are_filled(matcher):
    torch = torch_or_skip()
    bitmask = torch.full((2, matcher.vocabulary.bitmask_words), -1, dtype=torch.int32)
    matcher.fill_next_token_bitmask(bitmask, 1)
    assert bitmask[1].tolist() == expected_row(matcher) and (bitmask[0] == -1).all()
    for bad, text in [(bitmask.long(), "type"), (bitmask.t(), "contiguous"), (bitmask.to("meta"), "cpu")]:
        with pytest.raises(ValueError, match=text):
            matcher.fill_next_token_bitmask(bad)


@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
def test_torch_logits_are_masked(type_name):
    torch = torch_or_skip()
    generator = torch.Generator().manual_seed(1)
    bitmask = torch.randint(-(2**31), 2**31, (3, 40), generator=generator).to(torch.int32)
    logits = torch.randn(3, 1270, generator=generator).to(getattr(torch, type_name))
    shifts = torch.arange(32, dtype=torch.int32)
    bits = (bitmask[:, :, None] >> shifts & 1).reshape(3, -1)[:, :1270]
    want = logits.masked_fill(bits == 0, INF)
    ffwd.apply_token_bitmask_inplace(logits, bitmask)
    assert torch.equal(logits, want)
