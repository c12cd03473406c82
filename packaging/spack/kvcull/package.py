# package.py - a recipe for Spack: copy the folder kvcull into a repository's packages/, or
#   spack repo create REPO && cp -R packaging/spack/kvcull REPO/packages && spack repo add REPO
# There is no address of a release here yet: `spack install kvcull` takes the tarball of `make release` from a mirror, and
# `spack develop kvcull` or `spack dev-build kvcull@develop` the source tree.

from spack.package import *


class Kvcull(AutotoolsPackage, CudaPackage):
    """Runs language models with a key-value cache of bounded size, by published methods and their combinations, with the
    same bits on every backend."""

    homepage = "https://kvcull.invalid"
    maintainers = []

    license("Apache-2.0")

    version("develop", no_cache=True)
    version("0.1.0", preferred=True)

    variant("opencl", default=False, description="the OpenCL backend")
    variant("server", default=True, description="kvcull serve")
    variant("mpi", default=False, description="several processes as one engine")
    variant("nccl", default=False, when="+mpi+cuda", description="rows of ranks between devices by NCCL")
    variant("openblas", default=False, description="OpenBLAS, for --math fast")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("pkgconfig", type="build")
    depends_on("autoconf", type="build", when="@develop")
    depends_on("automake", type="build", when="@develop")
    depends_on("libtool", type="build", when="@develop")
    depends_on("m4", type="build", when="@develop")
    depends_on("jansson@2.11:")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("xxhash")
    depends_on("opencl@1.2:", when="+opencl")
    depends_on("openblas", when="+openblas")
    depends_on("libmicrohttpd@0.9.71:", when="+server")
    depends_on("mpi", when="+mpi")
    depends_on("nccl@2.7:", when="+nccl")

    conflicts("target=x86:", msg="kvcull needs a 64-bit machine")
    conflicts("%gcc@:6")

    def url_for_version(self, version):
        return f"https://kvcull.invalid/kvcull-{version}.tar.gz"

    def autoreconf(self, spec, prefix):
        autoreconf("-fi")

    @property
    def force_autoreconf(self):
        return self.spec.satisfies("@develop")

    def configure_args(self):
        args = [f"--with-{name}=" + ("yes" if self.spec.satisfies("+" + name) else "no")
                for name in ("mpi", "opencl", "openblas", "server")]
        args.append("--with-nccl=" + ("yes" if self.spec.satisfies("+nccl") else "no"))
        if self.spec.satisfies("+cuda"):
            args.append("--with-cuda=" + self.spec["cuda"].prefix)
            archs = self.spec.variants["cuda_arch"].value
            if archs and "none" not in archs:
                args.append("--with-cuda-arch=" + ",".join(archs))
        return args

    def test_verify(self):
        """every operation and method has the stored hashes"""
        which(self.prefix.bin.kvcull)("verify", "--backend", "cpu", "--against", "stored")

    def test_answer(self):
        """the bundled model answers from a bounded cache"""
        text = "the magic number for lantern 48 21 . question : the magic number for lantern"
        out = which(self.prefix.bin.kvcull)("run", "-m", join_path(self.prefix.share.kvcull, "demo"), "-p", text,
                                            "-n", "2", "--temp", "0", "-q", "--kv", "snapkv:budget=40",
                                            output=str.split, error=str.split)
        check_outputs("48 21", out)
