"""What a plugin answers, as the host takes it."""

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.plugin.responses import validation_from_proto


def recommended(*texts):
    answer = pb.ValidateConfigResponse(
        values=[pb.ConfigValue(name="column", recommended_values=texts)]
    )
    found = validation_from_proto(answer, lambda text: text.replace("S3CRET", "***"))
    return found.values[0].recommended_values


def test_recommended_values_are_taken_as_they_are():
    assert recommended("a", "\t", "") == ("a", "\t", "")


def test_a_recommended_value_with_a_secret_or_without_end_is_left_out():
    assert recommended("a", "user:S3CRET@host", "x" * 1001, "b") == ("a", "b")
    assert len(recommended(*map(str, range(5000)))) == 1000
