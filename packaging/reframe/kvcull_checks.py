"""Checks for ReFrame: that a site's kvcull gives the stored bits on each backend, answers, and how fast it decodes.

    reframe -c packaging/reframe/kvcull_checks.py -r [-S modules=kvcull]

Sites set `modules`, `executable`, `data` or `valid_systems` with -S; backends are tried where a partition has the feature
`opencl` or `cuda`; references of the performance check are a site's own.
"""
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function, variable

TEXT = "the magic number for lantern 48 21 . question : the magic number for lantern"


class KvcullCheck(rfm.RunOnlyRegressionTest):
    """What all checks share: the program, and where its bundled model is."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "kvcull"
    data = variable(str, value="$(dirname $(command -v kvcull))/../share/kvcull")


@rfm.simple_test
class verify_stored(KvcullCheck):
    """Every operation and method has the stored hashes."""

    backend = parameter(["cpu", "opencl", "cuda"])
    time_limit = "30m"

    @run_before("run")
    def choose(self):
        self.executable_opts = ["verify", "--backend", self.backend, "--against", "stored"]
        self.skip_if(self.backend not in self.current_partition.features and self.backend != "cpu",
                     f"the partition has no feature {self.backend}")

    @sanity_function
    def differs_nowhere(self):
        return sn.all([sn.assert_eq(self.job.exitcode, 0), sn.assert_not_found(r"DIFFERS", self.stdout)])


@rfm.simple_test
class answer(KvcullCheck):
    """The bundled model answers from a bounded cache."""

    @run_before("run")
    def ask(self):
        self.executable_opts = ["run", "-m", f"{self.data}/demo", "-p", f"'{TEXT}'", "-n", "2", "--temp", "0", "-q",
                                "--kv", "snapkv:budget=40"]

    @sanity_function
    def is_right(self):
        return sn.assert_found(r"48 21", self.stdout)


@rfm.simple_test
class decode_speed(KvcullCheck):
    """Tokens per second of decode with a made model, with a full cache and with a bounded one."""

    policy = parameter(["full", "snapkv:budget=512"])
    time_limit = "30m"

    @run_before("run")
    def measure(self):
        self.executable_opts = ["bench", "--shape", "100m", "--type", "q8_0", "--kv", self.policy, "--prompt", "2048",
                                "--gen", "64", "--json"]

    @sanity_function
    def ended_well(self):
        return sn.all([sn.assert_eq(self.job.exitcode, 0), sn.assert_found(r'"tokens_per_second"', self.stdout)])

    @performance_function("tokens/s")
    def tokens_per_second(self):
        return sn.extractsingle(r'"tokens_per_second":\s*([0-9.]+)', self.stdout, 1, float, item=-1)
