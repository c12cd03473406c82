# OpenCL on Intel's runtime for CPUs, which pip installs into build/; use together with --plain
. tests/devices/device.sh

check_intel() { check_device intel x86_64 libintelocl.so; }
