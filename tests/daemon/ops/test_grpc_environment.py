"""What gRPC reads from the environment, unless the operator has set it."""

from roostd.ops.grpc_environment import prepare_grpc


def test_what_the_operator_has_set_stays() -> None:
    environ = {"GRPC_EXPERIMENTS": "mine"}
    prepare_grpc(environ)
    assert environ == {"GRPC_EXPERIMENTS": "mine", "GRPC_VERBOSITY": "NONE"}


def test_samples_are_read_without_a_second_thread() -> None:
    environ: dict[str, str] = {}
    prepare_grpc(environ)
    assert "-event_engine_listener" in environ["GRPC_EXPERIMENTS"].split(",")
