"""The way of a policy to production: in shadow, evaluated, promoted, rolled back.

What it needs of processes, of the journal and of evidence is here; docs/policies.md is its page.
Not here: policies themselves, and the file of promotions (`roostd.ops.promotions`).
"""
