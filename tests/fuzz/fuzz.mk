# fuzz.mk - libFuzzer targets, built and run by `make fuzz` only.
