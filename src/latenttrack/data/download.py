"""Files from the network: no more bytes than expected, and all of them or none."""

from collections.abc import Callable

from latenttrack.errors import LatentTrackError

# Seconds without a byte, after which the server is given up.
TIMEOUT = 30.0
CHUNK = 1 << 16

# Called with the bytes received so far and the bytes in all, None where the server does not say.
ReportBytes = Callable[[int, int | None], None]


def download(address: str, limit: int, progress: ReportBytes | None = None) -> bytes:
    """Download a file into memory.

    Args:
        address: an http(s) address.
        limit: most bytes that are accepted.
        progress: called after every chunk.

    Returns:
        The file's bytes.
    """
    # Here, because it takes as long to import as the rest of the room.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    received = bytearray()
    try:
        with urlopen(address, timeout=TIMEOUT) as response:
            total = response.length
            while chunk := response.read(CHUNK):
                received += chunk
                if len(received) > limit:
                    raise LatentTrackError(
                        f"{address} sends more than the {limit:,} bytes expected: it is not the file wanted."
                    )
                if progress is not None:
                    progress(len(received), total)
    except HTTPError as error:
        error.close()
        raise LatentTrackError(
            f"{address} cannot be fetched (the server answers {error.code} {error.reason}): "
            "try again later, or put the file into place by hand."
        ) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise LatentTrackError(
            f"{address} cannot be fetched ({' '.join(str(reason).split()) or type(reason).__name__}): "
            "check the network connection, or put the file into place by hand."
        ) from None
    # A connection that breaks between two chunks looks like the end of the file.
    if total is not None and len(received) != total:
        raise LatentTrackError(
            f"the download of {address} broke off after {len(received):,} of {total:,} bytes: try again."
        )
    return bytes(received)
