"""The process that reads the page's report from the journal: a week may take half a minute.

roostd starts it as `python -m roostd.page.report_worker JOURNAL SINCE UNTIL`; it prints
roost.report/1.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from roost_engine.domain.errors import JournalError
from roost_formats.report.document import report_document
from roost_formats.report.reading import read_report

_NICENESS = 19  # decisions go first


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; the exit code is 1, with a line on stderr, where it cannot be read."""
    journal, since_s, until_s = sys.argv[1:] if arguments is None else arguments
    os.nice(_NICENESS)
    try:
        found = read_report([Path(journal)], float(since_s), float(until_s))
    except JournalError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(report_document(found), allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
