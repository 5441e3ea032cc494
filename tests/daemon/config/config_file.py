"""A configuration file, and what is wrong with it."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.loaded_config import load_config


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "roostd.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(tmp_path: Path, text: str, **environ: str) -> list[str]:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ)
    return [problem.replace(str(file), "roostd.yaml") for problem in caught.value.problems]
