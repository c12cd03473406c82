"""openvino.py - the part of OpenVINO that tests/tools/openvino_genai.py needs."""


class Tensor:
    def __init__(self, values):
        self.values = values
