"""A Slurm of one node on this machine, for a test: its own key, daemons, ports and folder.

    with LocalSlurm(folder) as slurm:
        slurm.run("sbatch", "--parsable", "--wrap", "true")

Slurm's daemons run as the user who starts them, which Slurm allows only root.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")


def find_missing():
    """Why Slurm cannot be started here; None: it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in DAEMONS:
        if not shutil.which(name, path=path):
            return f"{name} is not installed"
    if os.geteuid() != 0:
        return "Slurm's daemons are started by root only"
    return None


def find_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MaxArraySize=5000
MinJobAge=3600
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=local Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class LocalSlurm:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.daemons = []
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.environment["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=self.folder, cpus=os.cpu_count(),
                                 controller_port=find_port(), node_port=find_port()), encoding="utf-8")
        self.start_daemon("munged", "--foreground", "--force", f"--key-file={key}",
                          f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munge.pid",
                          f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed")
        self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start_daemon("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
        self.start_daemon("slurmd", "-D", "-f", self.environment["SLURM_CONF"])
        self.wait_for(self.is_node_idle, "a node")

    def start_daemon(self, *command):
        log = open(self.folder / f"{command[0]}.out", "wb")
        with log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log,
                                                 stdin=subprocess.DEVNULL, start_new_session=True))

    def is_node_idle(self):
        done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=self.environment, capture_output=True, text=True,
                              check=False)
        return done.stdout.strip() == "idle"

    def wait_for(self, is_there, what, seconds=120):
        end = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > end or any(one.poll() is not None for one in self.daemons):
                raise RuntimeError(f"{what} did not come up: {self.read_logs()}")
            time.sleep(0.2)

    def read_logs(self):
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
                         for path in sorted(self.folder.glob("*.out")) + sorted(self.folder.glob("*.log")))

    def stop(self):
        for one in reversed(self.daemons):
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGTERM)
        for one in reversed(self.daemons):
            try:
                one.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        self.daemons = []

    def run(self, *command, check=True, **options):
        return subprocess.run([str(one) for one in command], env=self.environment, capture_output=True, text=True,
                              check=check, **options)

    def wait_for_jobs(self, seconds=300):
        """All jobs have ended. Returns their states by job id, as in "7_3"."""
        end = time.monotonic() + seconds
        while self.run("squeue", "-h", "-o", "%i").stdout.strip():
            if time.monotonic() > end:
                raise RuntimeError(f"jobs did not end: {self.run('squeue').stdout}{self.read_logs()}")
            time.sleep(0.2)
        states = {}
        for line in self.run("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").stdout.splitlines():
            job, state = line.split()
            states[job] = state
        return states
