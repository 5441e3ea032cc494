"""Placement rules by name: which GPUs a job is offered."""
