"""The gRPC services: convert in, event, convert out.

Lives here: servers, authorisation, limits, and the table from errors to gRPC codes.
Does not belong here: decisions and state.
"""
