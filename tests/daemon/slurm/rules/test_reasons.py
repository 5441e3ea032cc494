import pytest
from tests.daemon.slurm.recorded_site import jobs
from tests.slurm_glue.recorded import RELEASES

from roostd.slurm.rules.reasons import ReasonClass, reason_class

NODES_DOWN = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        (
            ReasonClass.LIMIT,
            [
                *("QOSMaxGRESPerUser", "QOSGrpGRES", "QOSMaxJobsPerUserLimit", "QOSJobLimit"),
                *("QOSUsageThreshold", "QOSNotAllowed", "AssocGrpGRES", "AssocMaxJobsLimit"),
                *("AssociationJobLimit", "AssocGrpCPUMinutesLimit", "MaxGRESPerAccount"),
                *("Licenses", "PartitionDown", "PartitionInactive", "PartitionNodeLimit"),
                *("PartitionTimeLimit", "PartitionConfig", "JobArrayTaskLimit"),
                *("MaxGRESRunMinsPerUser", "MaxGRESRunMinsPerAccount"),
                *("AccountNotAllowed", "InvalidQOS", "InvalidAccount", "BurstBufferResources"),
            ],
        ),
        (
            ReasonClass.NODES,
            [
                *("ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n1"),
                *("ReqNodeNotAvail,_May_be_reserved_for_other_job", "Reservation", "NodeDown"),
                *(NODES_DOWN, NODES_DOWN.replace(" ", "_"), f"({NODES_DOWN})"),
            ],
        ),
        (ReasonClass.RESOURCES, ["Resources", "Priority", "None", "", "Cleaning", "Prolog", "New"]),
        (
            ReasonClass.USER,
            [
                *("JobHeldUser", "JobHeldAdmin", "Dependency", "DependencyNeverSatisfied"),
                *("BeginTime", "BadConstraints", "job_requeued_in_held_state", "DeadLine"),
                *("launch_failed_requeued_held", "JobHoldMaxRequeue", "ReservationDeleted"),
            ],
        ),
    ],
)
def test_reasons_are_classed_by_what_ends_the_wait(kind: ReasonClass, reasons: list[str]) -> None:
    assert {reason: reason_class(reason) for reason in reasons} == dict.fromkeys(reasons, kind)


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_reasons_are_classed(release: str) -> None:
    queue = jobs(release)
    assert {
        name: reason_class(queue[name].reason)
        for name in ("account-full", "license", "closed", "too-long", "whole-node", "begin", "low")
    } == {
        "account-full": ReasonClass.LIMIT,
        "license": ReasonClass.LIMIT,
        "closed": ReasonClass.LIMIT,
        "too-long": ReasonClass.LIMIT,
        "whole-node": ReasonClass.RESOURCES,
        "begin": ReasonClass.USER,
        "low": ReasonClass.RESOURCES,
    }
