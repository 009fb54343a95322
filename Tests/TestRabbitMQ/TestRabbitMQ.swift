import Foundation

/// A RabbitMQ node of the tests' own, in a temporary folder on free ports of loopback, with its own epmd.
///
/// A shell stands between the tests and the node and ends it when the tests' end of a pipe closes: also where the tests
/// were killed.
package final class TestRabbitMQ: Sendable {
    /// Why a node could not be started.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Whether the server's programs are installed.
    package static var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: server) }

    private static let server = "/usr/lib/rabbitmq/bin/rabbitmq-server"

    /// The files of a node that speaks TLS and asks for certificates.
    package struct Certificates: Sendable {
        package var authorities: String
        package var certificate: String
        package var privateKey: String

        package init(authorities: String, certificate: String, privateKey: String) {
            (self.authorities, self.certificate, self.privateKey) = (authorities, certificate, privateKey)
        }
    }

    /// The port of AMQP: over TLS if the node has certificates.
    package let port: Int
    /// The port of MQTT over TLS, if the node has certificates.
    package let mqttPort: Int
    /// The port of the management API, if the node has certificates.
    package let managementPort: Int
    private let folder: String
    private let environment: [String: String]
    private let process = Process()
    private let lifeline = Pipe()

    /// Starts a node and waits until it listens.
    ///
    /// - Parameter certificates: with them AMQP and MQTT speak TLS alone, a client's certificate names its user, and the
    ///   management API is there.
    package init(_ certificates: Certificates? = nil) throws {
        folder = FileManager.default.temporaryDirectory.path + "/mq-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let ports = Self.freePorts(5)
        (port, mqttPort, managementPort) = (ports[0], ports[3], ports[4])
        let settings =
            certificates.map { Self.settings($0, amqp: ports[0], mqtt: ports[3], management: ports[4]) }
            ?? "listeners.tcp.1 = 127.0.0.1:\(ports[0])\n"
        try settings.write(toFile: folder + "/rabbit.conf", atomically: true, encoding: .utf8)
        let plugins =
            certificates == nil ? "[]." : "[rabbitmq_mqtt, rabbitmq_auth_mechanism_ssl, rabbitmq_management]."
        try (plugins + "\n").write(toFile: folder + "/plugins", atomically: true, encoding: .utf8)
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        environment = [
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder, "RABBITMQ_NODENAME": "t\(port)@localhost",
            "RABBITMQ_MNESIA_BASE": folder + "/data", "RABBITMQ_LOG_BASE": folder + "/log",
            "RABBITMQ_CONFIG_FILE": folder + "/rabbit.conf", "RABBITMQ_ENABLED_PLUGINS_FILE": folder + "/plugins",
            "RABBITMQ_DIST_PORT": "\(ports[1])", "RABBITMQ_PID_FILE": folder + "/pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null", "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": "\(ports[2])",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "-kernel inet_dist_use_interface {127,0,0,1} -setcookie tests",
        ]
        process.environment = environment
        // The node's own process and its epmd write their ids down; both are ended by them.
        process.arguments = [
            "-c",
            #"epmd -relaxed_command_check </dev/null >/dev/null 2>&1 & epmd=$!; "$0" <&- >"$1/out" 2>&1 & node=$!; "#
                + #"read -r line; [ -s "$1/pid" ] && kill -KILL $(cat "$1/pid"); kill -KILL $node $epmd"#,
            Self.server, folder,
        ]
        process.standardInput = lifeline
        try process.run()
        try? lifeline.fileHandleForReading.close()
        for _ in 0..<1200 {
            let log = (try? String(contentsOfFile: folder + "/out", encoding: .utf8)) ?? ""
            if log.contains("Starting broker... completed") { return }
            guard process.isRunning else { break }
            usleep(100_000)
        }
        throw Failure(description: "RabbitMQ did not start: see \(folder)/out")
    }

    /// Runs `rabbitmqctl` as the node's administrator.
    package func control(_ arguments: String...) throws {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/lib/rabbitmq/bin/rabbitmqctl")
        process.environment = environment
        process.arguments = ["--erlang-cookie", "tests", "-n", "t\(port)@localhost"] + arguments
        (process.standardOutput, process.standardError) = (output, output)
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(description: text) }
    }

    deinit {
        try? lifeline.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private static func settings(_ files: Certificates, amqp: Int, mqtt: Int, management: Int) -> String {
        """
        listeners.tcp = none
        listeners.ssl.1 = 127.0.0.1:\(amqp)
        ssl_options.cacertfile = \(files.authorities)
        ssl_options.certfile = \(files.certificate)
        ssl_options.keyfile = \(files.privateKey)
        ssl_options.verify = verify_peer
        ssl_options.fail_if_no_peer_cert = true
        ssl_cert_login_from = common_name
        auth_mechanisms.1 = EXTERNAL
        mqtt.listeners.tcp = none
        mqtt.listeners.ssl.1 = 127.0.0.1:\(mqtt)
        mqtt.ssl_cert_login = true
        mqtt.allow_anonymous = false
        mqtt.vhost = /
        mqtt.exchange = amq.topic
        management.tcp.ip = 127.0.0.1
        management.tcp.port = \(management)

        """
    }

    /// Ports that nobody has, all different. They lie below those that the kernel gives out: one of those could be somebody
    /// else's before the node has it.
    private static func freePorts(_ count: Int) -> [Int] {
        var found: [Int] = []
        while found.count < count {
            let port = UInt16.random(in: 10_000..<20_000)
            if !found.contains(Int(port)), isFree(port) { found.append(Int(port)) }
        }
        return found
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) == 0 }
        }
    }
}
