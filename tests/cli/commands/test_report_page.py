"""The page of a report: everything in it, nothing from outside, nothing that a user can inject."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from tests.formats.report.past import past_job

from roost_formats.report.tally import tally
from roostctl.commands.report_page import report_page

VOID = {"meta", "!doctype"}


class Outline(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        """See HTMLParser."""
        self.text += data


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    return found


def page_of(**changes: Any) -> str:
    jobs = [
        replace(past_job(1), **changes),
        past_job(2, is_binding=True, limit="MaxGRES", limited_s=60.0),
    ]
    return report_page(tally(jobs).figures(1_800_000_000.0, 1_800_600_000.0))


def test_it_is_whole_without_anything_from_outside() -> None:
    page = page_of()
    found = outline(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not {"src", "href", "onload", "onclick"} & set(found.attributes)
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


def test_it_has_both_modes_the_limits_and_the_tables() -> None:
    text = outline(page_of()).text
    for wanted in ("Watched", "Enforced", "+95 points", "MaxGRES", "Partitions", "60001"):
        assert wanted in text


def test_what_users_name_is_text() -> None:
    page = page_of(partition="<script>alert(1)</script>")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
