"""The gRPC edge: services, conversion, the error table."""
