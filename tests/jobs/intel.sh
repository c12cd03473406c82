# OpenCL on Intel's runtime for CPUs, installed by pip into build/; run with --plain
. tests/devices/device.sh

check_intel() { check_device intel x86_64 libintelocl.so; }
