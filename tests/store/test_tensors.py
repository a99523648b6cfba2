import hashlib
import json
import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from latenttrack.errors import LatentTrackError
from latenttrack.store import read_any, read_tensors, write_tensors

DTYPES = ["float32", "float64", "int32", "int64", "uint32", "bool"]
FIELDS = {"checksum": "0" * 64, "kind": "model", "schema": 1, "created_with": "0.1.0"}

names = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "__metadata__")
headers = st.dictionaries(
    st.text().filter(lambda key: key not in FIELDS),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@st.composite
def bit_patterns(draw):
    """Arrays of any bits, so also every NaN, of any small shape, also () and with zeros in it."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    if dtype.kind == "b":
        return draw(hnp.arrays(bool, shape))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    return np.frombuffer(raw, dtype).reshape(shape)


def assert_same_bits(read, written):
    assert read.keys() == written.keys()
    for name, array in written.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()


def forge(fields, layout="", body=b"", sign=True):
    """A file that need not make sense, built by hand from the documented rule, with a right checksum."""
    inner = fields if isinstance(fields, str) else json.dumps(fields, separators=(",", ":"))
    header = ('{"__metadata__":{"latenttrack":' + json.dumps(inner) + "}" + layout + "}").encode()
    data = len(header).to_bytes(8, "little") + header + body
    if not sign:
        return data
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


def refusal(path, data, kind="model"):
    """The sentence with which a file of these bytes is refused."""
    path.write_bytes(data)
    with pytest.raises(LatentTrackError) as caught:
        read_tensors(path, kind)
    message = str(caught.value)
    assert repr(str(path)) in message
    assert "\n" not in message
    return message


@pytest.fixture
def small(tmp_path):
    """The bytes of a small but complete file."""
    path = tmp_path / "small.lt"
    tensors = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7), "b": np.array([True])}
    write_tensors(path, tensors, {"preset": "paper", "layers": [1, {"é": 0.5}]}, "model")
    return path.read_bytes()


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors=st.dictionaries(names, bit_patterns(), max_size=4), header=headers, kind=st.text(max_size=8))
def test_round_trip_is_bit_exact(tmp_path, tensors, header, kind):
    path = tmp_path / "file.lt"
    write_tensors(path, tensors, header, kind)
    read, read_header = read_tensors(path, kind)
    assert_same_bits(read, tensors)
    assert read_header == header


def test_nan_payloads_survive(tmp_path):
    bits = np.array(
        [0x7FF8000000000001, 0x7FF0000000000001, 0xFFFFDEADBEEF0000, 0x8000000000000000], np.uint64
    )
    write_tensors(tmp_path / "nan.lt", {"a": bits.view(np.float64)}, {}, "model")
    read, _ = read_tensors(tmp_path / "nan.lt", "model")
    np.testing.assert_array_equal(read["a"].view(np.uint64), bits)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-2],
        np.broadcast_to(np.float32(3.0), (2, 2)),
        np.arange(3, dtype=">f8"),
    ],
    ids=["transposed", "strided", "broadcast", "big-endian"],
)
def test_memory_layout_does_not_matter(tmp_path, array):
    write_tensors(tmp_path / "file.lt", {"a": array}, {}, "model")
    read, _ = read_tensors(tmp_path / "file.lt", "model")
    np.testing.assert_array_equal(read["a"], array)
    assert read["a"].flags.writeable


def test_equal_contents_give_equal_bytes(tmp_path):
    a, b = np.arange(3), np.ones((2, 2), np.float32)
    write_tensors(tmp_path / "one.lt", {"a": a, "b": b}, {"x": 1}, "model")
    write_tensors(tmp_path / "two.lt", {"b": b, "a": a}, {"x": 1}, "model")
    assert (tmp_path / "one.lt").read_bytes() == (tmp_path / "two.lt").read_bytes()


def test_any_safetensors_reader_opens_the_file(tmp_path, small):
    (tmp_path / "file").write_bytes(small)
    tensors = safetensors.numpy.load(small)
    assert sorted(tensors) == ["b", "n", "w"]
    with safetensors.safe_open(tmp_path / "file", "np") as file:
        fields = json.loads(file.metadata()["latenttrack"])
    assert list(fields)[:4] == list(FIELDS)
    assert fields["kind"] == "model"
    assert fields["schema"] == 1
    blanked = small.replace(fields["checksum"].encode(), b"0" * 64)
    assert hashlib.sha256(blanked).hexdigest() == fields["checksum"]


def test_forged_file_of_the_documented_form_is_read(tmp_path):
    """Guards the hostile cases below: what they change, and not the forging, is why they are refused."""
    layout = ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    (tmp_path / "file.lt").write_bytes(forge(FIELDS | {"x": 1}, layout, bytes(8)))
    stored = read_any(tmp_path / "file.lt")
    assert (stored.kind, stored.schema, stored.created_with) == ("model", 1, "0.1.0")
    assert stored.header == {"x": 1}
    assert stored.tensors["a"].shape == (2,)


def test_missing_directory_empty_and_pipe(tmp_path):
    with pytest.raises(LatentTrackError, match="does not exist"):
        read_tensors(tmp_path / "missing.lt", "model")
    with pytest.raises(LatentTrackError, match="is a directory"):
        read_tensors(tmp_path, "model")
    assert "is empty" in refusal(tmp_path / "empty.lt", b"")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LatentTrackError, match="not a regular file"):
        read_tensors(tmp_path / "pipe", "model")


def test_foreign_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("a", "b")
    foreign = {
        "text": b"time,x,y\n2024-01-01,1,2\n",
        "short": b"hello",
        "zip": (tmp_path / "archive").read_bytes(),
        "safetensors": safetensors.numpy.save({"a": np.zeros(3)}),
        "safetensors with metadata": safetensors.numpy.save({"a": np.zeros(3)}, {"format": "pt"}),
    }
    for name, data in foreign.items():
        assert "is not a latenttrack file" in refusal(tmp_path / name, data)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_pickle_is_foreign_and_never_run(tmp_path):
    data = pickle.dumps(Bomb(tmp_path / "exploded"))
    assert "is not a latenttrack file" in refusal(tmp_path / "file.lt", data)
    assert not (tmp_path / "exploded").exists()


def test_every_truncation_is_refused(tmp_path, small):
    for length in range(1, len(small)):
        message = refusal(tmp_path / "cut.lt", small[:length])
        # Before the header's first letter there is nothing to know a latenttrack file by.
        assert ("is not a latenttrack file" if length <= 8 else "is cut short") in message


def test_every_flipped_byte_is_detected(tmp_path, small):
    source = random.Random(0)
    for position in range(len(small)):
        data = bytearray(small)
        data[position] ^= source.randrange(1, 256)
        refusal(tmp_path / "flipped.lt", bytes(data))


def test_white_space_in_the_header_is_covered_by_the_checksum(tmp_path, small):
    # safetensors pads its header with spaces; for JSON alone, a tab there would mean the same.
    header_end = 8 + int.from_bytes(small[:8], "little")
    assert small[header_end - 1 : header_end] == b" "
    data = small[: header_end - 1] + b"\t" + small[header_end:]
    assert "is damaged" in refusal(tmp_path / "tab.lt", data)


def test_appended_bytes_are_detected(tmp_path, small):
    assert "is damaged" in refusal(tmp_path / "long.lt", small + b"\0")


def test_newer_schema_asks_for_an_upgrade_even_of_another_kind(tmp_path):
    data = forge(FIELDS | {"schema": 2, "created_with": "9.0"})
    message = refusal(tmp_path / "new.lt", data, kind="snapshot")
    assert "newer latenttrack ('9.0'" in message
    assert "upgrade latenttrack" in message


def test_damaged_newer_file_is_damaged_first(tmp_path):
    data = forge(FIELDS | {"schema": 2}, sign=False)
    assert "is damaged" in refusal(tmp_path / "new.lt", data)


def test_another_kind(tmp_path, small):
    message = refusal(tmp_path / "file.lt", small, kind="snapshot")
    assert "'model'" in message
    assert "'snapshot'" in message


def without(key):
    return {name: value for name, value in FIELDS.items() if name != key}


DEEP = "[" * 100_000 + "]" * 100_000
BARELY_DEEP = "[" * 200 + "]" * 200
CHECKSUM_ONLY = '{"checksum":"' + "0" * 64 + '"'


@pytest.mark.parametrize(
    "fields",
    [
        without("kind"),
        without("schema"),
        without("created_with"),
        FIELDS | {"kind": 3},
        FIELDS | {"created_with": None},
        FIELDS | {"schema": True},
        FIELDS | {"schema": 0},
        FIELDS | {"schema": "1"},
        FIELDS | {"schema": 1.0},
        json.dumps(FIELDS, separators=(",", ":"))[:-1],
        CHECKSUM_ONLY + ',"deep":' + DEEP + "}",
        json.dumps(FIELDS, separators=(",", ":"))[:-1] + ',"deep":' + BARELY_DEEP + "}",
    ],
)
def test_hostile_fields_with_a_right_checksum(tmp_path, fields):
    assert "is damaged" in refusal(tmp_path / "file.lt", forge(fields))


@pytest.mark.parametrize(
    "layout",
    [
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}',
        ',"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F32","shape":[1e9],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}',
        ',"a":{"dtype":"F32","shape":[2' + ",1" * 100 + '],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}',
        ',"a":{"dtype":"object","shape":[1],"data_offsets":[0,8]}',
        ',"a":{"dtype":"F32","shape":[2]}',
        ',"a":7',
        ',"a":' + DEEP,
        ',"__metadata__":{"latenttrack":[]}',
        ',"__metadata__":' + DEEP,
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1e999]}',
        ',"a":{"dtype":"F32","shape":[2],"data_offsets":[0,"8"]}',
    ],
)
@pytest.mark.parametrize("sign", [True, False], ids=["right checksum", "wrong checksum"])
def test_hostile_layouts(tmp_path, layout, sign):
    message = refusal(tmp_path / "file.lt", forge(FIELDS, layout, bytes(8), sign))
    assert "is damaged" in message or "is cut short" in message


@pytest.mark.parametrize("length", [16 * 2**20 + 1, 2**63, 2**64 - 1])
def test_header_size_is_bounded_before_parsing(tmp_path, small, monkeypatch, length):
    def no_parsing(*args):
        raise AssertionError("parsed")

    monkeypatch.setattr(json, "loads", no_parsing)
    assert "is damaged" in refusal(tmp_path / "file.lt", length.to_bytes(8, "little") + small[8:])


@pytest.mark.parametrize(
    ("tensors", "header", "words"),
    [
        ({"a": np.zeros(2, np.float16)}, {}, "'a' has dtype float16"),
        ({"a": np.array(["text"])}, {}, "'a' has dtype <U4"),
        ({"a": np.array([None])}, {}, "'a' has dtype object"),
        ({"__metadata__": np.zeros(2)}, {}, "cannot name a tensor"),
        ({"\ud800": np.zeros(2)}, {}, "cannot name a tensor"),
        ({3: np.zeros(2)}, {}, "3 cannot name a tensor"),
        ({}, {"kind": "x"}, "'kind' is reserved"),
        ({}, {"checksum": "x"}, "'checksum' is reserved"),
        ({}, {"x": float("nan")}, "not plain JSON"),
        ({}, {"x": np.zeros(2)}, "not plain JSON"),
        ({}, {"x": json.loads("[" * 70 + "]" * 70)}, "nested over 64 deep"),
        ({}, {"x": "y" * (16 * 2**20)}, "over 16 MiB"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_old_file_stays(tmp_path, tensors, header, words):
    path = tmp_path / "file.lt"
    path.write_bytes(b"old")
    with pytest.raises(LatentTrackError, match=words):
        write_tensors(path, tensors, header, "model")
    assert path.read_bytes() == b"old"


def test_self_containing_header_is_refused(tmp_path):
    header = {}
    header["self"] = header
    with pytest.raises(LatentTrackError, match="not plain JSON"):
        write_tensors(tmp_path / "file.lt", {}, header, "model")


@pytest.mark.parametrize("path", [None, 3, b"x", ["m.lt"]])
def test_what_is_no_name_of_a_file_is_refused(path):
    with pytest.raises(LatentTrackError, match="named by a text or a path"):
        read_tensors(path, "model")
