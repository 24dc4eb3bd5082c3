"""A cluster in a process: what schedules pods and lets them run, beside a control plane of oarlock."""
