"""Several hosts, and a Slurm of several nodes, on this machine: network namespaces, each with its own host name.

Root only; `unavailable()` says why not. Everything made here goes away at the end of the program. Names carry the
process id, so two labs may stand side by side.

    with Hosts(3) as hosts:
        hosts.mpirun([(2, 0), (1, 1)], [program, ...])      # ranks 0 and 1 on host 0, rank 2 on host 1
        with Slurm(hosts, cpus=2) as slurm:
            slurm.run("sbatch", "job.sh")
"""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mpi"))
import harness  # noqa: E402

NET = "10.77.0"
# enter HOST WORDS...: the words on that host. /sys stays this machine's, so control groups can be read.
ENTER = """#!/bin/sh
host=$1
shift
exec nsenter --net="/run/netns/$host" unshare --uts --mount sh -c '
hostname "$0"; mount --bind "{dir}/hosts" /etc/hosts; . "{dir}/$0.sh"; exec "$@"' "$host" "$@"
"""
# With these mpirun notices in four to six seconds that a host is cut off. Ranks with --silence 8 were heard at most two
# seconds before: they have missed enough by then to name the host, and have not yet ended by themselves.
KEEPALIVE = (("oob_tcp_keepalive_time", 2), ("oob_tcp_keepalive_intvl", 1), ("oob_tcp_keepalive_probes", 4))
# A port that nobody listens at refuses as soon as there is a way to it; address: the other host's.
REACH = """import socket, sys, time
for _ in range(100):
    s = socket.socket()
    s.settimeout(0.2)
    try:
        s.connect((sys.argv[1], 9))
    except ConnectionRefusedError:
        sys.exit(0)
    except OSError:
        time.sleep(0.1)
sys.exit("no way to " + sys.argv[1])
"""
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")


def unavailable(slurm=False):
    """Why there can be no lab here, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    for program in ("ip", "mount", "nsenter", "unshare", "mpirun", *(SLURM_PROGRAMS if slurm else ())):
        if not find(program):
            return "%s is not installed" % program
    name = "lsx%d" % os.getpid()
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None if tried.returncode == 0 else "network namespaces are not allowed: %s" % tried.stderr.strip()


def require(slurm=False):
    reason = unavailable(slurm)
    if reason:
        print("SKIP: %s" % reason)
        sys.exit(harness.SKIP)


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def ip(*words):
    subprocess.run([find("ip"), *words], check=True, capture_output=True, text=True)


class Hosts:
    """Hosts 0..n-1 on one switch; host i has the address 10.77.0.(i + 1)."""

    def __init__(self, n):
        self.n = n
        self.switch = "lsw%d" % os.getpid()
        self.names = ["lsh%dn%d" % (os.getpid(), i) for i in range(n)]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-lab-"))
        self.wan = []
        self.cut_off = set()

    def __enter__(self):
        atexit.register(self.down)
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        ip("-n", self.switch, "link", "set", "br0", "up")
        table = "127.0.0.1 localhost\n" + "".join("%s %s\n" % (self.address(i), h) for i, h in enumerate(self.names))
        for i, host in enumerate(self.names):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", "p%d" % i, "netns", self.switch)
            ip("-n", self.switch, "link", "set", "p%d" % i, "master", "br0", "up")
            ip("-n", host, "addr", "add", self.address(i) + "/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            (self.folder / (host + ".sh")).write_text("")
        (self.folder / "hosts").write_text(table)
        enter, agent = self.folder / "enter", self.folder / "agent"
        enter.write_text(ENTER.format(dir=self.folder))
        agent.write_text("#!/bin/sh\nh=$1\nshift\nexec '%s' \"$h\" sh -c \"$*\"\n" % enter)
        enter.chmod(0o755)
        agent.chmod(0o755)
        return self

    def __exit__(self, *_):
        self.down()

    def address(self, i):
        return "%s.%d" % (NET, i + 1)

    def at_start(self, i, shell):
        """Shell words run on host i, in its own mount namespace, in front of every program (mpirun's ranks)."""
        (self.folder / (self.names[i] + ".sh")).write_text(shell + "\n")

    def command(self, i, words):
        return [str(self.folder / "enter"), self.names[i], *map(str, words)]

    def mpirun_command(self, ranks, words, mca=(), other_words=None, data=NET):
        """ranks: [(number, host)]; other_words: {host: words} where the program is another one."""
        launch = ["mpirun", "--mca", "plm_rsh_agent", str(self.folder / "agent"), "--mca", "btl_tcp_if_include",
                  data + ".0/24", "--mca", "oob_tcp_if_include", NET + ".0/24"]
        for name, value in mca:
            launch += ["--mca", name, str(value)]
        for k, (number, host) in enumerate(ranks):
            launch += ([":"] if k else []) + ["-n", str(number), "--host", "%s:%d" % (self.names[host], number)]
            launch += list(map(str, (other_words or {}).get(host, words)))
        return self.command(ranks[0][1], launch)

    def mpirun(self, ranks, words, timeout=120, mca=(), other_words=None, env=None, data=NET):
        environment = {**os.environ, **harness.MPI_ENVIRONMENT, **(env or {})}
        environment.pop("OMPI_MCA_btl_tcp_if_include")
        environment.pop("OMPI_MCA_oob_tcp_if_include")
        return subprocess.run(self.mpirun_command(ranks, words, mca, other_words, data), capture_output=True, text=True,
                              timeout=timeout, env=environment, stdin=subprocess.DEVNULL, check=False)

    def start(self, i, words, **more):
        return subprocess.Popen(self.command(i, words), stdin=subprocess.DEVNULL, **more)

    def cut(self, i):
        ip("-n", self.switch, "link", "set", "p%d" % i, "down")
        self.cut_off.add(i)

    def mend(self, i):
        """Returns when the host and every other one reach each other: each pair finds its way again for itself, and
        until then a connection may be refused for want of a route."""
        ip("-n", self.switch, "link", "set", "p%d" % i, "up")
        if i in self.cut_off:
            for j in range(self.n):
                if j != i and j not in self.cut_off:
                    self.reach(i, j)
                    self.reach(j, i)
            self.cut_off.discard(i)

    def reach(self, i, j):
        subprocess.run([find("nsenter"), "--net=/run/netns/%s" % self.names[i], sys.executable, "-c", REACH,
                        self.address(j)], check=True)

    def processes(self):
        """Every process in one of the hosts' namespaces: [(host, pid, command line)]."""
        found = []
        for host in self.names:
            listed = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=False).stdout
            for pid in map(int, listed.split()):
                try:
                    words = pathlib.Path("/proc/%d/cmdline" % pid).read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                found.append((host, pid, words.strip()))
        return found

    def down(self):
        if not self.folder.exists():
            return
        for _, pid, _ in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


SLURM_CONF = """ClusterName=lab
SlurmctldHost={first}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
TmpFS={dir}/tmp/%n
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1,sched_min_interval=0
KillWait=2
MinJobAge=300
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=5
PropagateResourceLimitsExcept=MEMLOCK
"""


class Slurm:
    """A Slurm whose nodes are the hosts; its controller is on host 0. MpiDefault is none, as on many sites."""

    def __init__(self, hosts, cpus=2):
        self.hosts, self.cpus = hosts, cpus
        self.folder = hosts.folder / "slurm"
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self):
        for name in ("state", "spool", "log", "tmp"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        self.hosts.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        text = SLURM_CONF.format(first=self.hosts.names[0], address=self.hosts.address(0), dir=self.folder)
        for i, host in enumerate(self.hosts.names):
            (self.folder / "tmp" / host).mkdir()
            text += "NodeName=%s NodeAddr=%s CPUs=%d SocketsPerBoard=1 CoresPerSocket=%d ThreadsPerCore=1 " \
                    "RealMemory=4000 State=UNKNOWN\n" % (host, self.hosts.address(i), self.cpus, self.cpus)
        text += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        (self.folder / "slurm.conf").write_text(text)
        self.start(None, "munged", "--force", "--key-file=%s" % key, "--socket=%s/munge.sock" % self.folder,
                   "--pid-file=%s/munged.pid" % self.folder, "--log-file=%s/log/munged.log" % self.folder,
                   "--seed-file=%s/munge.seed" % self.folder, "--num-threads=2")
        atexit.register(self.down)
        self.start(0, "slurmctld", "-c")
        for i, host in enumerate(self.hosts.names):
            self.start(i, "slurmd", "-N", host)
        self.wait_for(lambda: self.run("sinfo", "-h", "-o", "%T %D").stdout.strip() == "idle %d" % self.hosts.n,
                      30, "nodes to be idle")
        return self

    def __exit__(self, *_):
        self.down()

    def start(self, host, program, *words):
        command = [find(program), *words]
        if host is not None:
            command = self.hosts.command(host, command)
        subprocess.run(command, check=True, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def run(self, *words, timeout=60, env=None, cwd=None):
        """A command on the login node, which is host 0."""
        return subprocess.run(self.hosts.command(0, words), capture_output=True, text=True, timeout=timeout,
                              env={**self.environment, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL, check=False)

    @staticmethod
    def wait_for(done, seconds, what):
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError("waited %d s for %s" % (seconds, what))
            time.sleep(0.1)

    def job(self, number):
        """The fields of a job as scontrol shows them."""
        shown = self.run("scontrol", "show", "job", str(number)).stdout
        return dict(field.split("=", 1) for field in shown.split() if "=" in field)

    def wait_job(self, number, states=("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"), seconds=120):
        self.wait_for(lambda: self.job(number).get("JobState") in states, seconds, "job %s" % number)
        return self.job(number)

    def down(self):
        for name in ["slurmctld.pid", "munged.pid", *("slurmd.%s.pid" % h for h in self.hosts.names)]:
            try:
                os.kill(int((self.folder / name).read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                pass
