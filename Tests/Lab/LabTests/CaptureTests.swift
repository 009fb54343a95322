import Foundation
import Testing

extension LabTests {
    /// Recording the kernel's own monitor, on the gateway's machine, while meters are paired and read.
    @Suite struct Recordings {
        /// A recorder in the guest; without the gateway's command, or as it.
        private struct Recorder {
            let lab: Lab
            let job: Document

            /// Where the guest has its own C library, the Swift runtime and the host's other libraries.
            static let path = "/usr/lib:/host/swift:/host/libraries"
            static let libraries: Document = ["LD_LIBRARY_PATH": .string(path)]

            /// Starts `healthrelay-capture`, and waits until its channel is open.
            static func start(_ lab: Lab, _ arguments: Document = []) async throws -> Recorder {
                let job = try #require(
                    try await lab("run", ["program": "healthrelay-capture", "arguments": arguments])["job"])
                let recorder = Recorder(lab: lab, job: job)
                try await recorder.wait(for: "adapter")
                return recorder
            }

            /// Waits until it has said something on standard error, or has ended.
            func wait(for word: String) async throws {
                try await lab.guest(
                    "cd /run/jobs; until grep -q '\(word)' \(job.json).err || [ -s \(job.json).status ]; do sleep 0.1; done"
                )
            }

            /// Ends it; its status, standard output as a file here, and standard error.
            func end(_ signal: String = "TERM") async throws -> (status: Int?, output: String, errors: String) {
                let ended = try await lab("end", ["job": job, "signal": .string(signal)])
                let errors = try #require(ended["errors"]?.text)
                return (
                    ended["status"]?.integer, try #require(ended["output"]?.text),
                    try String(contentsOfFile: errors, encoding: .utf8)
                )
            }
        }

        /// The keys that bluetoothd keeps of its bonds.
        private func keys(_ lab: Lab) async throws -> [[UInt8]] {
            let stored = try await lab.guest("cat /var/lib/bluetooth/*/*/info")
            return stored.matches(of: /Key=([0-9A-Fa-f]{32})/).map { match in
                let digits = Array(match.1)
                return stride(from: 0, to: 32, by: 2).compactMap { UInt8(String(digits[$0..<($0 + 2)]), radix: 16) }
            }
        }

        /// Whether half a key that is no zeros, in either order, is in a file.
        private func holds(_ file: Data, _ key: [UInt8]) -> Bool {
            [key, key.reversed()].contains { key in
                (0...8).contains { start in
                    let half = Data(key[start..<(start + 8)])
                    return half.contains { $0 != 0 } && file.range(of: half) != nil
                }
            }
        }

        @Test(
            "promise 12: pairing and reading are recorded whole and without a key; tshark and replay read the meter's records"
        )
        func pairing() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 30, "seed": 5, "contexts": true]]))
            let (recorder, keeping) = (try await Recorder.start(lab), try await Recorder.start(lab, ["--keep-keys"]))
            let gateway = try TestGateway()
            let paired = try await gateway.pair(meter)
            #expect(paired.status == 0, "\(paired.errors)")
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")

            let (safe, open) = (try await recorder.end(), try await keeping.end("INT"))
            #expect(safe.status == 0 && open.status == 0, "\(safe.errors) \(open.errors)")
            #expect(safe.errors.contains("total\tdropped\t0"), "\(safe.errors)")
            let file = try Data(contentsOf: URL(fileURLWithPath: safe.output))
            let openFile = try Data(contentsOf: URL(fileURLWithPath: open.output))
            let keys = try await keys(lab)
            #expect(!keys.isEmpty)
            for key in keys { #expect(!holds(file, key)) }
            // The search finds what is there.
            #expect(keys.contains { holds(openFile, $0) })
            #expect(file.count == openFile.count)

            let held = try await meter.readings()
            let replayed = try await gateway("replay", safe.output, "--dry-run")
            #expect(replayed.status == 0, "\(replayed.errors)")
            Comparison.expect(replayed.documents, equal: held)
            let sequences = try await tshark(safe.output, "btatt.glucose_measurement.sequence_number")
            #expect(Set(sequences) == Set(held.compactMap { $0["sequence"]?.json }))
            #expect(try await tshark(safe.output, "_ws.malformed").isEmpty)
            // The lab's own search for keys, which shares nothing with ours.
            let found = try await TestGateway.run(
                "python3", "-c",
                """
                import pathlib, sys
                sys.path.insert(0, sys.argv[2])
                from lab import btsnoop
                print([len(btsnoop.secrets_in(btsnoop.parse(pathlib.Path(each).read_bytes())[1])) > 0
                       for each in (sys.argv[1], sys.argv[3])])
                """, safe.output, Self.labFolder, open.output)
            #expect(found.output == "[False, True]\n", "\(found.errors)")
        }

        private static let labFolder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().path

        /// The values of a field in the frames that have it.
        private func tshark(_ file: String, _ field: String, in filter: String? = nil) async throws -> [String] {
            let result = try await TestGateway.run(
                "tshark", "-r", file, "-Y", filter ?? field, "-T", "fields", "-e", field)
            #expect(result.status == 0, "\(result.errors)")
            return result.output.split(separator: "\n").map(String.init)
        }

        @Test("of two bonded devices with private addresses, the one that is asked for is recorded, by its identity")
        func oneDevice() async throws {
            let lab = try await Lab.fresh()
            // The same values, so that only their sender tells them apart.
            let records: Document = ["count": 3, "seed": 9]
            let ours = try await lab.add(Meters.omron(["private": true, "records": records]))
            let other = try await lab.add(
                Meters.omron([
                    "private": true, "records": records, "address": "C0:00:00:00:18:11",
                    "name": "BLESmart_0000021A2800", "serial": "20190407002",
                ]))
            let gateway = try TestGateway()
            for meter in [ours, other] {
                let seen = try await scan(gateway, for: meter)
                let paired = try await gateway("pair", seen)
                #expect(paired.status == 0, "\(paired.errors)")
            }
            let recorder = try await Recorder.start(lab, ["--device", .string(ours.address), "--adapter", "hci0"])
            for meter in [other, ours] {
                let read = try await gateway("read", meter.address)
                #expect(read.status == 0 && !read.documents.isEmpty, "\(read.errors)")
            }
            let ended = try await recorder.end()
            #expect(ended.status == 0, "\(ended.errors)")
            let indications = try await tshark(ended.output, "frame.number", in: "btatt.opcode == 0x1d")
            #expect(indications.count == 3, "\(indications)")
            let names = Set(try await tshark(ended.output, "btcommon.eir_ad.entry.device_name"))
            #expect(names.isSubset(of: ["BLESmart_0000021A28FF"]))
        }

        /// The address a device that hides its own is heard with.
        private func scan(_ gateway: TestGateway, for meter: LabMeter) async throws -> String {
            let name = meter.address == "C0:00:00:00:18:11" ? "BLESmart_0000021A2800" : "BLESmart_0000021A28FF"
            let scan = try gateway.start(["scan", "--for", "60"])
            var seen: String?
            _ = try await scan.wait {
                seen = $0.documents.last { $0["name"]?.text == name }?["address"]?.text
                return seen != nil
            }
            _ = await scan.end()
            return try #require(seen, "\(name) was not heard")
        }

        @Test(
            "the command, on the machine with the radio: one document, a file of its owner's, adapter gone and back told"
        )
        func command() async throws {
            let lab = try await Lab.fresh()
            // Shared folders are there once a program has run.
            _ = try await Recorder.start(lab, ["--help"]).end()
            // Found through its link, the program has its helper beside it, as an installed one.
            try await lab.guest("rm -f /run/capture.btsnoop.new; ln -sf /host/build/healthrelay /run/healthrelay")
            let job = try #require(
                try await lab(
                    "run",
                    [
                        "program": "/run/healthrelay",
                        "arguments": ["capture", "/run/capture.btsnoop.new", "--yes", "--json"],
                        "environment": Recorder.libraries,
                    ])["job"])
            let recorder = Recorder(lab: lab, job: job)
            try await recorder.wait(for: "hci0")
            try await lab.adapter("remove")
            try await recorder.wait(for: "adapter_gone")
            try await lab.adapter("return")
            try await recorder.wait(for: "adapter_back")
            #expect(try await lab.guest("stat -c %a /run/capture.btsnoop.new") == "600\n")
            let ended = try await recorder.end("INT")
            #expect(ended.status == 0, "\(ended.errors)")
            let document = try Document(String(contentsOfFile: ended.output, encoding: .utf8))
            #expect(document["dropped"] == 0)
            let fetched = try await lab("fetch", ["path": "/run/capture.btsnoop.new"])
            let path = try #require(fetched["path"]?.text)
            let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
            #expect(document["octets"]?.integer == size)
            #expect(try await tshark(path, "frame.number").count == document["packets"]?.integer)
        }

        @Test(
            "without the capability it is 77, without the adapter 69; with it, it is kept for opening the channel alone"
        )
        func permissions() async throws {
            let lab = try await Lab.fresh()
            let absent = try await Recorder.start(lab, ["--adapter", "hci7"]).end()
            #expect(absent.status == 69 && absent.errors.contains("no_adapter"), "\(absent.errors)")
            let refused = try await lab.guest(
                """
                su -s /bin/sh messagebus -c \
                'LD_LIBRARY_PATH=\(Recorder.path) /host/build/healthrelay-capture 2>&1 >/dev/null </dev/null'; \
                echo $?
                """)
            #expect(refused.contains("capture_not_permitted") && refused.hasSuffix("77\n"), "\(refused)")
            let recorder = try await Recorder.start(lab)
            let status = try await lab.guest("cat /proc/$(cat /run/jobs/\(recorder.job.json).pid)/status")
            for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                #expect(status.contains("\(name):\t0000000000000000"), "\(status)")
            }
            #expect(status.contains("NoNewPrivs:\t1") && !status.contains("Uid:\t0"))
            #expect(try await recorder.end("INT").status == 0)
        }
    }
}
