import io
import json

import structlog

from roostd.ops.logs import configure_logs


def logged(line_format: str = "logfmt", *, under_systemd: bool = False, **values: object) -> str:
    stream = io.StringIO()
    configure_logs(
        "info",
        "json" if line_format == "json" else "logfmt",
        under_systemd=under_systemd,
        stream=stream,
    )
    log = structlog.get_logger()
    log.debug("not_shown")
    log.warning("job_waits", **values)
    return stream.getvalue()


def test_one_line_an_event() -> None:
    line = logged(job_id="7", waited_s=1.5)

    assert line.startswith("timestamp=")
    assert line.endswith("level=warning event=job_waits job_id=7 waited_s=1.5\n")


def test_control_characters_cannot_forge_lines_or_move_the_cursor() -> None:
    line = logged(reason="a\nlevel=error event=forged \x1b[2J\x9b2J\u2028b\t")

    assert line.count("\n") == 1
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in line[:-1])
    assert "\u2028" not in line
    assert "forged" in line


def test_under_systemd_the_priority_comes_first_and_the_journal_has_the_time() -> None:
    assert logged(under_systemd=True, job_id="7") == "<4>event=job_waits job_id=7\n"


def test_json_is_one_object_a_line() -> None:
    line = logged("json", job_id="7", is_held=True, nothing=None)

    told = json.loads(line)
    assert told["event"] == "job_waits"
    assert told["is_held"] is True
    assert "nothing" not in told


def test_a_trace_stays_on_its_line() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        structlog.get_logger().exception("failed")

    assert stream.getvalue().count("\n") == 1
    assert "ValueError" in stream.getvalue()
