"""Journals of roostd again: action by action, or under another policy."""
