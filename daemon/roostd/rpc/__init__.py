"""The gRPC services: each converts a request, reads the state or reports an event, and answers.

Lives here: servers, authorisation, limits, and the table from errors to gRPC codes.
Does not belong here: decisions and state.
"""
