import Foundation
import Testing

extension LabTests {
    /// Ways of pairing, and what becomes of those that fail.
    @Suite struct Pairing {
        @Test("promise 8: pairing by passkey is proven by a bonded reconnect; both sides hold the bond")
        func passkey() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek())
            let gateway = try TestGateway()
            let result = try await gateway.pair(meter)
            #expect(result.status == 0, "\(result.errors)")
            #expect(
                try result.document
                    == ["address": .string(meter.address), "model": "accuchek_guide", "paired": true, "proven": true])
            #expect(try await lab.bonds() == [meter.address])
            #expect(try await meter.state()["bonds"]?.elements.count == 1)
            // One connection to bond, and another that the bond alone encrypts.
            let events = try await meter.log().map(\.name).filter {
                ["connected", "shows", "bonded", "encrypted", "disconnected"].contains($0)
            }
            #expect(events.filter { $0 == "connected" }.count == 2, "\(events)")
            #expect(events.filter { $0 == "bonded" }.count == 1 && events.filter { $0 == "encrypted" }.count == 2)
            let device = try #require(try await gateway.device(meter))
            #expect(device["paired"] == true && device["proven"] == true)
            #expect(device["serial"]?.text == "00001808")

            let mark = try await meter.mark()
            let again = try await gateway("pair", meter.address)
            #expect(again.status == 0, "\(again.errors)")
            #expect(try again.document["proven"] == true)
            #expect(
                try await meter.log(since: mark).allSatisfy { $0.name != "bonded" },
                "a bond that holds is not made anew")
        }

        @Test(
            "Just Works: a cuff without digits is paired, and the proof starts no transfer", arguments: [true, false])
        func justWorks(secureConnections: Bool) async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.omron(["records": ["count": 3, "seed": 2]]),
                ["secure_connections": secureConnections ? true : false, "deletes_confirmed": true])
            let gateway = try TestGateway()
            let result = try await gateway.pair(meter)
            #expect(result.status == 0, "\(result.errors)")
            #expect(try result.document["proven"] == true)
            #expect(try await meter.log().allSatisfy { $0.name != "sent" && $0.name != "deleted" })
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings(ever: true))
        }

        @Test("a passkey with legacy pairing")
        func legacyPasskey() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(), ["secure_connections": false])
            let result = try await TestGateway().pair(meter)
            #expect(result.status == 0, "\(result.errors)")
            #expect(try result.document["proven"] == true)
        }

        @Test("numeric comparison is asked on the terminal: yes pairs")
        func numericComparison() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.generic(), ["pairing": "numeric"])
            let terminal = try PseudoTerminal()
            let gateway = try TestGateway()
            let pairing = try gateway.start(["pair", meter.address], input: terminal.slave)
            let digits = try await meter.passkey()
            #expect(try await pairing.wait { $0.errorText.contains(digits) }, "\(pairing.errorText)")
            try terminal.type("y\n")
            let result = await pairing.finish()
            #expect(result.status == 0, "\(result.errors)")
            #expect(try result.document["proven"] == true)
        }

        @Test(
            "numeric comparison refused: here by the person, there by the meter's user", arguments: ["here", "there"])
        func numericComparisonRefused(side: String) async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.generic(), ["pairing": "numeric", "confirms": side == "here" ? true : false])
            let terminal = try PseudoTerminal()
            let pairing = try TestGateway().start(["pair", meter.address], input: terminal.slave)
            if side == "here" {
                _ = try await meter.passkey()
                #expect(try await pairing.wait { $0.errorText.contains("?") }, "\(pairing.errorText)")
                try terminal.type("n\n")
            }
            let result = await pairing.finish()
            #expect(result.status == 77, "\(result.errors)")
            let expected = side == "here" ? ["pairing_rejected"] : ["wrong_passkey", "pairing_rejected_by_device"]
            #expect(expected.contains(result.errorCode ?? ""), "\(result.errors)")
            #expect(try await lab.bonds().isEmpty)
        }

        @Test("a passkey that is typed at the meter is shown to the person")
        func typedAtTheMeter() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.generic(), ["pairing": "keyboard"])
            let pairing = try TestGateway().start(["pair", meter.address])
            let shown = /Type (\d{6}) at/
            #expect(try await pairing.wait { $0.errorText.contains(shown) }, "\(pairing.errorText)")
            try await meter.type(String(try #require(pairing.errorText.firstMatch(of: shown)).1))
            let result = await pairing.finish()
            #expect(result.status == 0, "\(result.errors)")
            #expect(try result.document["proven"] == true)
        }

        @Test("a wrong passkey is named, leaves nothing half-bonded, and the right one works after it")
        func wrongPasskey() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek())
            let gateway = try TestGateway()
            let pairing = try gateway.start(["pair", meter.address, "--passkey", "000000"])
            _ = try await meter.passkey()
            let wrong = await pairing.finish()
            #expect(wrong.status == 77, "\(wrong.errors)")
            #expect(wrong.errorCode == "wrong_passkey" && wrong.hint != nil)
            #expect(try await lab.bonds().isEmpty)
            #expect(try await meter.state()["bonds"] == [])
            #expect(try await gateway.device(meter)?["paired"] != true)

            let right = try await gateway.pair(meter)
            #expect(right.status == 0, "\(right.errors)")
            #expect(try right.document["proven"] == true)
        }

        @Test("a meter that refuses to be paired is named, with what to do")
        func refused() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(), ["refuses_pairing": true])
            let result = try await TestGateway()("pair", meter.address, "--passkey", "123456")
            #expect(result.status == 77, "\(result.errors)")
            #expect(result.errorCode == "pairing_rejected_by_device" && result.hint != nil)
            #expect(try await lab.bonds().isEmpty)
        }

        @Test("a meter that goes away in the middle of its pairing")
        func interrupted() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek())
            let gateway = try TestGateway()
            let file = gateway.directory.appendingPathComponent("empty")
            try Data().write(to: file)
            let pairing = try gateway.start(["pair", meter.address, "--passkey-file", file.path, "--wait", "10"])
            _ = try await meter.passkey()
            try await meter.behave(["advertises": "never"])
            try await meter.drop()
            let result = await pairing.finish()
            #expect(result.status == 75, "\(result.errors)")
            #expect(result.errorCode == "pairing_interrupted", "\(result.errors)")
            #expect(try await lab.bonds().isEmpty)
        }

        @Test("a meter that is not there is not heard, and nothing is changed")
        func notThere() async throws {
            _ = try await Lab.fresh()
            let result = try await TestGateway()("pair", "C0:00:00:00:00:99", "--passkey", "123456", "--wait", "2")
            #expect(result.status == 75 && result.errorCode == "device_not_seen", "\(result.errors)")
        }

        @Test("unpair removes the bond here; the meter keeps its own")
        func unpair() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.omron())
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            let result = try await gateway("unpair", meter.address)
            #expect(result.status == 0, "\(result.errors)")
            #expect(try result.document == ["address": .string(meter.address), "paired": false])
            #expect(try await lab.bonds().isEmpty)
            #expect(try await meter.state()["bonds"]?.elements.count == 1)
            #expect(try await gateway("unpair", meter.address).errorCode == "not_paired")
        }
    }
}

/// A terminal that a test types at.
final class PseudoTerminal {
    let slave: FileHandle
    private let master: FileHandle

    init() throws {
        // The C library's own functions for it are not imported: these are the kernel's TIOCSPTLCK and TIOCGPTN.
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var (isLocked, number) = (Int32(0), Int32(0))
        guard descriptor >= 0, ioctl(descriptor, 0x4004_5431, &isLocked) == 0,
            ioctl(descriptor, 0x8004_5430, &number) == 0
        else { throw Lab.Refused(description: "no pseudo-terminal: \(errno)") }
        let other = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        guard other >= 0 else { throw Lab.Refused(description: "no pseudo-terminal: \(errno)") }
        master = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        slave = FileHandle(fileDescriptor: other, closeOnDealloc: true)
    }

    func type(_ text: String) throws { try master.write(contentsOf: Data(text.utf8)) }
}
