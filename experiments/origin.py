"""The day and the machine of figures that are measured: the first line of what
such an experiment prints, so that a kept output says where it is from."""

import datetime
import os
import platform


def measured_here():
    day = datetime.datetime.now(datetime.timezone.utc).date()
    return (f"measured {day} on {platform.machine()} with {os.cpu_count()} "
            "cores")
