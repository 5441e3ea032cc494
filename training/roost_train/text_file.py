"""Reads small text files that a person has written, such as a configuration."""

from pathlib import Path

from roost_train.errors import TrainError

MOST_BYTES = 1 << 20


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        TrainError: it is a pipe or a device, too large, or no UTF-8 text.
        OSError: it cannot be read.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise TrainError(f"{path}: a pipe, a socket or a device; want a file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TrainError(f"{path}: larger than {MOST_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TrainError(f"{path}: not UTF-8 at byte {error.start}") from error
