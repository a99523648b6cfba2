import io
import socket
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from latenttrack.data import download as download_module
from latenttrack.data import jena
from latenttrack.data.jena import OFFICIAL, OFFICIAL_FILE, fetch_jena, find_jena, load_jena
from latenttrack.errors import LatentTrackError

START = np.datetime64("2009-01-01T00:10")


def official_csv(rows):
    lines = [",".join(f'"{name}"' for name in OFFICIAL.header)]
    for row in range(rows):
        time = (START + row * np.timedelta64(10, "m")).item().strftime("%d.%m.%Y %H:%M:%S")
        lines.append(time + f",{row}.00" * (len(OFFICIAL.header) - 1))
    return ("\n".join(lines) + "\n").encode()


CONTENT = official_csv(600)
SMALL = replace(OFFICIAL, size=len(CONTENT), rows=600, last="05.01.2009 04:00:00")


def zipped(*files, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def serve(monkeypatch):
    """A function that starts a server for some bytes and makes its address the official one."""
    servers = []

    def start(content, *, status=200, claim=None, silent=False):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests += 1
                self.send_response(status)
                if not silent:
                    self.send_header("Content-Length", str(claim or len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.requests = 0
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        address = f"http://127.0.0.1:{server.server_address[1]}/{OFFICIAL_FILE}.zip"
        monkeypatch.setattr(jena, "OFFICIAL", replace(jena.OFFICIAL, address=address))
        return server

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The official file of these tests has 600 rows."""
    monkeypatch.setattr(jena, "OFFICIAL", SMALL)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("silent", [False, True])
def test_fetch(serve, tmp_path, silent):
    # As archives made on macOS are.
    archive = zipped((OFFICIAL_FILE, CONTENT), (f"__MACOSX/._{OFFICIAL_FILE}", b"fork"))
    server = serve(archive, silent=silent)
    seen = []
    folder = tmp_path / "not" / "yet"
    path = fetch_jena(folder, progress=lambda *report: seen.append(report))
    assert path == find_jena(folder) == folder / "jena_climate_2009_2016.csv.zip"
    assert files_in(folder) == [path.name]
    assert path.read_bytes() == archive
    assert seen[-1] == (len(archive), None if silent else len(archive))
    assert len(load_jena(folder)) == 100
    # What is there and right is not fetched again; what is there and broken is.
    assert fetch_jena(folder) == path
    assert server.requests == 1
    path.write_bytes(archive[:-30])
    fetch_jena(folder)
    assert (server.requests, path.read_bytes()) == (2, archive)


def test_fetch_without_an_argument_goes_to_the_cache(serve, monkeypatch, tmp_path):
    monkeypatch.setenv("LATENTTRACK_CACHE", str(tmp_path))
    monkeypatch.delenv("LATENTTRACK_DATA", raising=False)
    serve(zipped((OFFICIAL_FILE, CONTENT)))
    assert fetch_jena() == tmp_path / "data" / f"{OFFICIAL_FILE}.zip"


def broken_checksum():
    archive = bytearray(zipped((OFFICIAL_FILE, CONTENT), method=zipfile.ZIP_STORED))
    archive[len(archive) // 2] ^= 1
    return bytes(archive)


OTHER_DAY = CONTENT.replace(b"\n01.01.2009 00:10", b"\n02.01.2009 00:10")
OTHER_END = CONTENT.replace(b"\n05.01.2009 04:00", b"\n05.01.2009 05:00")


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"<html>Please log in to this network</html>", "not a readable zip"),
        (b"", "not a readable zip"),
        (zipped((OFFICIAL_FILE, CONTENT))[:-40], "not a readable zip"),
        (zipped(), "one file"),
        (zipped(("a.csv", CONTENT), ("b.csv", b"")), "one file"),
        (zipped((OFFICIAL_FILE, CONTENT), method=zipfile.ZIP_LZMA), "ordinary zip"),
        (zipped((OFFICIAL_FILE, CONTENT[:-10])), f"unzips to {len(CONTENT) - 10:,} bytes instead of"),
        (zipped((OFFICIAL_FILE, CONTENT + b"0")), "unzips to more bytes"),
        (zipped((OFFICIAL_FILE, CONTENT.replace(b"\n", b" ", 1))), "599 rows instead of 600"),
        (zipped((OFFICIAL_FILE, CONTENT.replace(b"rho", b"roh"))), "other columns"),
        (
            zipped((OFFICIAL_FILE, OTHER_DAY)),
            "begins at '02.01.2009 00:10:00' instead of 01.01.2009 00:10:00",
        ),
        (zipped((OFFICIAL_FILE, OTHER_END)), "ends at '05.01.2009 05:00:00' instead of 05.01.2009 04:00:00"),
    ],
)
def test_another_file_is_refused_and_not_kept(serve, tmp_path, archive, message):
    serve(archive, silent=not archive)
    with pytest.raises(LatentTrackError, match=message):
        fetch_jena(tmp_path)
    assert files_in(tmp_path) == []


def test_flipped_bit_is_noticed(serve, tmp_path, monkeypatch):
    # Larger than what it holds, since it is not compressed.
    monkeypatch.setattr(jena, "download", lambda *_, **__: broken_checksum())
    with pytest.raises(LatentTrackError, match="not a readable zip"):
        fetch_jena(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_damage_anywhere_is_a_fault_or_harmless(seed):
    rng = np.random.default_rng(seed)
    archive = np.frombuffer(zipped((OFFICIAL_FILE, CONTENT)), np.uint8)
    # The headers stand at the ends, and are the likelier to confuse a reader.
    ends = np.r_[0:80, len(archive) - 120 : len(archive)]
    for _ in range(100):
        damaged = archive.copy()
        damaged[rng.choice(ends, 2)] = rng.integers(0, 256, 2)
        assert isinstance(jena._fault(io.BytesIO(damaged.tobytes())), str | None)


def test_bomb_is_unpacked_no_further_than_expected(serve, tmp_path, monkeypatch):
    read = []
    original = zipfile.ZipExtFile.read

    def counting(self, n=-1):
        data = original(self, n)
        read.append(len(data))
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counting)
    bomb = zipped((OFFICIAL_FILE, bytes(20_000_000)))
    assert len(bomb) < len(CONTENT)
    serve(bomb)
    with pytest.raises(LatentTrackError, match="more bytes"):
        fetch_jena(tmp_path)
    assert sum(read) == len(CONTENT) + 1


def test_endless_download_is_cut(serve, tmp_path):
    serve(bytes(len(CONTENT) + 1), silent=True)
    with pytest.raises(LatentTrackError, match=r"more than the .* bytes expected"):
        fetch_jena(tmp_path)
    assert files_in(tmp_path) == []


def test_broken_connection(serve, tmp_path):
    archive = zipped((OFFICIAL_FILE, CONTENT))
    serve(archive[:-1], claim=len(archive))
    with pytest.raises(LatentTrackError, match=f"broke off after {len(archive) - 1:,} of {len(archive):,}"):
        fetch_jena(tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("status", [404, 503])
def test_server_refuses(serve, tmp_path, status):
    serve(b"gone", status=status)
    with pytest.raises(LatentTrackError, match=f"the server answers {status}"):
        fetch_jena(tmp_path)
    assert files_in(tmp_path) == []


def test_failure_leaves_the_old_file(serve, tmp_path):
    (tmp_path / f"{OFFICIAL_FILE}.zip").write_bytes(b"old")
    serve(b"not a zip")
    with pytest.raises(LatentTrackError, match="not a readable zip"):
        fetch_jena(tmp_path)
    assert (tmp_path / f"{OFFICIAL_FILE}.zip").read_bytes() == b"old"


def test_no_server(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/x.zip"
        monkeypatch.setattr(jena, "OFFICIAL", replace(SMALL, address=address))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(LatentTrackError, match=r"refused.*check the network"):
            fetch_jena(tmp_path)
    assert files_in(tmp_path) == []


def test_server_that_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "TIMEOUT", 0.1)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/x.zip"
        monkeypatch.setattr(jena, "OFFICIAL", replace(SMALL, address=address))
        with pytest.raises(LatentTrackError, match=r"timed out.*check the network"):
            fetch_jena(tmp_path)


def test_folder_that_cannot_be_made(serve, tmp_path):
    (tmp_path / "file").write_text("in the way")
    serve(zipped((OFFICIAL_FILE, CONTENT)))
    with pytest.raises(LatentTrackError, match="cannot make the folder"):
        fetch_jena(tmp_path / "file")
