"""A cluster of RabbitMQ nodes in temporary folders on loopback, with quorum queues, TLS and an epmd of its own."""
import json
import os
import secrets
import shutil
import signal

from engine import RABBIT_ROOT, Failed, cpu, plain_environment, rabbit, run, until
from keeper import pid_in, started
from ports import free_ports


class RabbitNode:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name = f"r{number}@localhost"
        self.folder = f"{cluster.folder}/r{number}"
        self.amqp, self.mqtt, self.plain_mqtt, self.distribution = free_ports(4)
        self.process, self.spent = None, 0
        os.makedirs(self.folder)
        cluster.ground.tell("file", self.pid_file)

    @property
    def pid_file(self):
        return f"{self.folder}/pid"

    @property
    def pid(self):
        return pid_in(self.pid_file)

    def configure(self):
        nodes = "".join(f"cluster_formation.classic_config.nodes.{node.number} = {node.name}\n"
                        for node in self.cluster.nodes)
        with open(f"{self.folder}/rabbit.conf", "w") as file:
            file.write(f"""listeners.tcp = none
listeners.ssl.1 = 127.0.0.1:{self.amqp}
mqtt.listeners.tcp = none
mqtt.listeners.ssl.1 = 127.0.0.1:{self.mqtt}
mqtt.allow_anonymous = false
mqtt.vhost = /
mqtt.exchange = amq.topic
mqtt.ssl_cert_login = true
ssl_cert_login_from = common_name
auth_mechanisms.1 = EXTERNAL
ssl_options.cacertfile = {self.cluster.authority.path}
ssl_options.certfile = {self.cluster.certificate[0]}
ssl_options.keyfile = {self.cluster.certificate[1]}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
cluster_formation.peer_discovery_backend = classic_config
{nodes}cluster_partition_handling = pause_minority
vm_memory_high_watermark.absolute = 4GB
disk_free_limit.absolute = 100MB
log.file.level = info
""")
        with open(f"{self.folder}/plugins", "w") as file:
            file.write("[rabbitmq_mqtt,rabbitmq_auth_mechanism_ssl].\n")

    def environment(self):
        return plain_environment({
            "HOME": self.cluster.folder, "RABBITMQ_NODENAME": self.name, "RABBITMQ_MNESIA_BASE": f"{self.folder}/data",
            "RABBITMQ_LOG_BASE": f"{self.folder}/log", "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbit.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins", "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_PID_FILE": self.pid_file, "RABBITMQ_CONF_ENV_FILE": "/dev/null", "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.cluster.epmd_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CTL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}"})

    def start(self):
        with open(f"{self.folder}/out", "w"):
            pass
        self.process = self.cluster.ground.start(
            rabbit("rabbitmq-server"), f"{self.folder}/out", self.environment())

    def wait(self, seconds=180):
        def is_up():
            if self.process.poll() is not None:
                raise SystemExit(f"RabbitMQ node {self.number} ended by itself: {open(f'{self.folder}/out').read()[-1500:]}")
            with open(f"{self.folder}/out", errors="replace") as file:
                return " completed with " in file.read()
        until(is_up, f"RabbitMQ node {self.number} starts", seconds)

    def kill(self):
        """As a machine that loses its power, but for the page cache."""
        pid = self.pid
        self.spent += cpu(pid)
        for each in (pid, self.process.pid):
            try:
                os.kill(each, signal.SIGKILL)
            except (OSError, TypeError):
                pass
        self.process.wait()
        until(lambda: started(pid) is None, "a killed node is gone", 30, 0.02)


class RabbitCluster:
    """Three nodes that form a cluster, with their own epmd."""

    def __init__(self, ground, authority, count=3):
        self.ground, self.authority = ground, authority
        self.folder = f"{ground.folder}/rabbit"
        os.makedirs(self.folder)
        with open(f"{self.folder}/.erlang.cookie", "w") as file:
            file.write(secrets.token_hex(16))
        os.chmod(f"{self.folder}/.erlang.cookie", 0o400)
        self.certificate = authority.issue("broker", is_server=True)
        self.epmd_port, = free_ports(1)
        self.nodes = [RabbitNode(self, number + 1) for number in range(count)]
        self.epmd = ground.start([*rabbit("epmd"), "-relaxed_command_check"], f"{self.folder}/epmd.log",
                                 self.nodes[0].environment())
        for node in self.nodes:
            node.configure()

    def start(self):
        self.nodes[0].start()
        # The first node of RabbitMQ 4 waits for a second one; two first nodes of 3.10 might not find each other.
        if not RABBIT_ROOT:
            self.nodes[0].wait()
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes:
            node.wait()

    def control(self, *arguments, node=None, timeout=120, text=None):
        node = node or next(each for each in self.nodes if each.process and each.process.poll() is None)
        return run([*rabbit("rabbitmqctl"), "-q", "-n", node.name, *arguments], node.environment(), timeout, text)

    def leader(self, queue="readings"):
        """The node that leads a queue."""
        for line in self.control("list_queues", "name", "leader", "--no-table-headers").splitlines():
            name, _, leader = line.partition("\t")
            if name == queue:
                return next(node for node in self.nodes if node.name == leader.strip())
        raise Failed(f"there is no queue {queue}")

    def depth(self, queue="readings"):
        for line in self.control("list_queues", "name", "messages", "--no-table-headers").splitlines():
            name, _, count = line.partition("\t")
            if name == queue:
                return int(count)
        raise Failed(f"there is no queue {queue}")

    def admit(self, gateways, collectors=("collector",)):
        """Makes the users: no passwords, since certificates prove who they are, and only their own topics."""
        users, permissions, topics = [], [], []
        for name in [*gateways, *collectors]:
            users.append({"name": name, "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
                          "tags": "", "limits": {}})
        for name in gateways:
            # As `ca` and the operator's page do it: the queues of the gateway's own client ids.
            queue = f"mqtt-subscription-({name}|{name[:19]}-t[0-9]+)qos[01]"
            own = f"^({queue}|amq\\.topic)$"
            permissions.append({"user": name, "vhost": "/", "configure": f"^{queue}$", "write": own, "read": own})
            topics.append({"user": name, "vhost": "/", "exchange": "amq.topic",
                           "write": "^healthrelay\\.{username}\\.(readings|status|hello)$",
                           "read": "^healthrelay\\.{username}\\.(receipts|config)$"})
        for name in collectors:
            permissions.append({"user": name, "vhost": "/", "configure": "^(readings|status)$",
                                "write": "^(readings|status|amq\\.topic)$", "read": "^(readings|status|amq\\.topic)$"})
        path = f"{self.folder}/users.json"
        with open(path, "w") as file:
            json.dump({"vhosts": [{"name": "/"}], "users": users, "permissions": permissions,
                       "topic_permissions": topics}, file)
        self.control("import_definitions", path)

    def pids(self):
        return {f"RabbitMQ {node.number}": node.pid for node in self.nodes if node.process and node.process.poll() is None}

    @property
    def hosts(self):
        return [("localhost", node.mqtt) for node in self.nodes]

    def wipe(self):
        """All nodes lose their power and their disks."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.kill()
            shutil.rmtree(f"{node.folder}/data", ignore_errors=True)
