"""The documents of `roostctl audit` name their schema first."""

from roostctl.documents.audit import AuditCheckDocument, AuditDocument


def test_the_schema_is_the_first_key() -> None:
    for shape in (AuditDocument, AuditCheckDocument):
        assert next(iter(shape.__annotations__)) == "schema"
