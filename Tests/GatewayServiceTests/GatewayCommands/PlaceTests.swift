import Foundation
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import GuardedServer

@Suite("Where things are")
struct PlaceTests {
    @Test(
        "the state directory: flag, HEALTHRELAY_STATE_DIR, systemd, XDG_STATE_HOME, HOME",
        arguments: [
            ("/f", ["HEALTHRELAY_STATE_DIR": "/e", "STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x"], "/f"),
            (nil, ["HEALTHRELAY_STATE_DIR": "/e", "STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x"], "/e"),
            (nil, ["STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"], "/s"),
            (nil, ["STATE_DIRECTORY": "/s:/t"], "/s"), (nil, ["XDG_STATE_HOME": "/x", "HOME": "/h"], "/x/healthrelay"),
            (nil, ["HOME": "/h"], "/h/.local/state/healthrelay"), (nil, [:], "/root/.local/state/healthrelay"),
            ("/f///", [:], "/f"), ("/", [:], "/"),
            (nil, ["HEALTHRELAY_STATE_DIR": "", "XDG_STATE_HOME": "", "HOME": "/h"], "/h/.local/state/healthrelay"),
            (nil, ["STATE_DIRECTORY": "", "XDG_STATE_HOME": "/x"], "/x/healthrelay"),
        ] as [(String?, [String: String], String)])
    func stateDirectory(_ flag: String?, _ environment: [String: String], _ path: String) {
        #expect(StateDirectory(flag: flag, environment: environment).path == path)
    }

    @Test("the control socket: beside the store and its owner's alone; a service's where systemd says, its group's too")
    func socket() {
        let own = StateDirectory(flag: "/f", environment: ["RUNTIME_DIRECTORY": "/r", "STATE_DIRECTORY": "/s"])
        #expect(own.socket == "/f/control.sock" && own.socketMode == 0o600)
        let service = StateDirectory(
            flag: nil, environment: ["RUNTIME_DIRECTORY": "/run/healthrelay:/run/other", "STATE_DIRECTORY": "/s"])
        #expect(service.socket == StateDirectory.service.socket && service.socketMode == 0o660)
        let half = StateDirectory(flag: nil, environment: ["STATE_DIRECTORY": "/s"])
        #expect(half.socket == "/s/control.sock" && half.socketMode == 0o600)
    }

    @Test("nobody's socket: none there, no socket, one whose owner has died, a path too long")
    func nobody() throws {
        let directory = NSTemporaryDirectory() + "place-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        #expect(try ControlClient(socket: directory + "/none") == nil)
        try Data().write(to: URL(fileURLWithPath: directory + "/file"))
        #expect(try ControlClient(socket: directory + "/file") == nil)
        #expect(try ControlClient(socket: directory + "/" + String(repeating: "a", count: 200)) == nil)
        #expect(try StateDirectory.owner(flag: directory, environment: [:]) == nil)
    }

    @Test("while the enabled service is away, a command that names no store opens none of the person's own")
    func absent() throws {
        let link = NSTemporaryDirectory() + "place-\(UUID().uuidString.prefix(8))"
        // As systemd's: a link counts, wherever it leads.
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/nonexistent")
        defer { try? FileManager.default.removeItem(atPath: link) }
        let problem = StateDirectory.absentService(
            flag: nil, environment: ["HOME": "/h", "HEALTHRELAY_STATE_DIR": ""], marks: ["/", link])
        #expect(problem?.code == "not_running" && problem?.status == .unavailable)
        #expect(StateDirectory.absentService(flag: nil, environment: [:], marks: ["/nonexistent", link]) == nil)
        #expect(StateDirectory.absentService(flag: "/f", environment: [:], marks: ["/", link]) == nil)
        for name in ["HEALTHRELAY_STATE_DIR", "STATE_DIRECTORY"] {
            #expect(StateDirectory.absentService(flag: nil, environment: [name: "/s"], marks: ["/", link]) == nil)
        }
        try StateDirectory.requireNoOwner(flag: "/nonexistent", environment: [:], marks: ["/", link])
    }

    @Test("the page's address", arguments: ["127.0.0.1:8480", "[::1]:0", "localhost:65535"])
    func listen(_ text: String) throws {
        let address = try ListenAddress(text)
        #expect(address.description == text && address.isLoopback)
    }

    @Test(
        "what is no address says what was expected",
        arguments: ["", "8480", ":80", "h:65536", "h:-1", "h:x", "::1:80", "[]:1"])
    func noListen(_ text: String) {
        let problem = #expect(throws: Problem.self) { try ListenAddress(text) }
        #expect(problem?.status == .configuration && problem?.message.contains("'\(text)'") == true)
    }

    @Test("beyond loopback is told apart", arguments: ["0.0.0.0:80", "192.168.0.1:80", "example.org:80", "[::]:80"])
    func exposed(_ text: String) throws { #expect(try !ListenAddress(text).isLoopback) }

    @Test(
        "the host of a request, without its port and in lower case",
        arguments: [
            ("127.0.0.1:8480", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"),
            ("Rebound.Example:8480", "rebound.example"), ("", ""),
        ])
    func host(_ authority: String, _ name: String) {
        #expect(HostCheck<PlainContext>.name(of: authority) == name)
    }

    @Test("this machine's names are answered to, and the one that was configured")
    func hosts() {
        let check = HostCheck<PlainContext>(names: ["localhost", "gateway.local", "Gateway.Home.Example.", ""])
        for ours in [
            "gateway.home.example", "GATEWAY.home.example:8480", "gateway.local:80", "LOCALHOST",
            "gateway.local.:1", "192.168.1.9:8480", "[fe80::1%eth0]:1",
        ] {
            #expect(check.isOurs(ours), "\(ours)")
        }
        // An address cannot be pointed elsewhere, a name can.
        for other in ["rebound.example", "192.168.1.9.rebound.example", "", ":8480", "[::1", "localhost.example"] {
            #expect(!check.isOurs(other), "\(other)")
        }
    }
}
