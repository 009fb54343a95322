import EmulatedCloud
import Foundation
import Testing

/// The built command against a wear service and WHOOP's API on loopback, with curl as the browser.
@Suite("The command cloud", .timeLimit(.minutes(8))) struct CloudTests {
    private static let noon = Date(timeIntervalSince1970: Double(Int(Date().timeIntervalSince1970 / 3600)) * 3600)

    private static func state() -> EmulatedCloud.State {
        var state = EmulatedCloud.State()
        state.records = [
            "whoop/recovery": [CloudRecords.recovery(93845, at: noon - 3600)],
            "whoop/sleep": (0..<30).map { CloudRecords.sleep("night-\($0)", at: noon - 40_000 - Double($0) * 60) },
            "whoop/workouts": [CloudRecords.workout("run", at: noon - 7200)],
            "whoop/cycles": [
                CloudRecords.cycle(2, at: noon - 3600, isOver: false), CloudRecords.cycle(1, at: noon - 90_000),
            ],
            "garmin/dailies": [
                CloudRecords.garmin("d", at: noon - 80_000, #""steps":4210,"restingHeartRateInBeatsPerMinute":51"#)
            ],
            "garmin/bodyComps": [CloudRecords.garmin("b", at: noon - 900, #""weightInGrams":70125"#)],
        ]
        return state
    }

    private struct Gateway: Sendable {
        let scratch: Scratch
        let cloud: EmulatedCloud
        let environment: [String: String]

        /// - Parameter direct: whether WHOOP's own API is used.
        init(_ cloud: EmulatedCloud, direct: Bool = false) throws {
            scratch = try Scratch()
            self.cloud = cloud
            let (key, secret) = (
                scratch.url.appendingPathComponent("key"), scratch.url.appendingPathComponent("secret")
            )
            try Data("app-key\n".utf8).write(to: key)
            try Data("client-secret\n".utf8).write(to: secret)
            environment = [
                "HEALTHRELAY_USER_CLIENT_USER_ID": "ann", "HEALTHRELAY_CLOUD_SERVICE_URL": cloud.url,
                "HEALTHRELAY_CLOUD_APP_ID": "app", "HEALTHRELAY_CLOUD_APP_KEY_FILE": key.path,
            ].merging(
                direct
                    ? [
                        "HEALTHRELAY_CLOUD_WHOOP_URL": cloud.url, "HEALTHRELAY_CLOUD_WHOOP_CLIENT_ID": "client",
                        "HEALTHRELAY_CLOUD_WHOOP_CLIENT_SECRET_FILE": secret.path,
                    ] : [:]
            ) { $1 }
        }

        func run(_ arguments: String..., crashAt point: String? = nil) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state],
                environment: environment.merging(point.map { ["HEALTHRELAY_CRASH_AT": $0] } ?? [:]) { $1 })
        }

        /// Begins to connect; gives the page.
        func begin(_ vendor: String, _ arguments: String...) async throws -> (Tool.Running, page: String) {
            let command = try Tool.Running(
                ["cloud", "connect", vendor, "--state-dir", scratch.state] + arguments, environment: environment,
                in: scratch.url)
            _ = await command.wait { $0.errorText.contains("ssh -L") }
            let found = (command.outputText + command.errorText).firstMatch(
                of: /http:\/\/127[0-9.:]+\/(page|oauth)[^"\s]*/)
            return (command, try #require(found.map { String($0.0) }, "\(command.errorText)"))
        }

        func browse(_ url: String) async throws -> String {
            try await Tool.other("curl", ["-s", "-m", "60", "-L", "-w", "%{http_code}", url]).output
        }

        func connect(_ vendor: String) async throws {
            let (command, page) = try await begin(vendor)
            #expect(try await browse(page).hasSuffix("200"))
            let result = await command.finish()
            try #require(result.status == 0, "\(result.errors)")
        }

        func readings(_ types: String = "") async throws -> [[String: Any]] {
            let result = try await run(
                "query", "--format", "ndjson", "--limit", "10000", "--types",
                types.isEmpty ? "heart_rate,hrv,spo2,weight,activity,sleep,other" : types)
            #expect(result.status == 0, "\(result.errors)")
            return try result.lines.map { line in
                try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
        }

        func verify() async throws {
            let result = try await run("store", "verify")
            #expect(result.status == 0, "\(result.output)\(result.errors)")
        }
    }

    private func check(_ schema: String, _ text: String) async throws {
        let folder = try Tool.temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("document.json")
        try Data(text.utf8).write(to: file)
        let result = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", [schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.errors)\(result.output)\n\(text)")
    }

    @Test("without settings and an account nothing is asked")
    func off() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let scratch = try Scratch()
            let none = try await Tool.run(["cloud", "connect", "whoop", "--state-dir", scratch.state])
            #expect(none.status == 78 && none.errors.contains("the settings name no service"), "\(none.errors)")
            let gateway = try Gateway(cloud)
            let fetch = try await gateway.run("cloud", "fetch", "--json")
            #expect(fetch.status == 78 && fetch.errors.contains("not_connected"))
            let one = try await gateway.run("cloud", "fetch", "garmin", "--json")
            #expect(one.status == 78 && one.errors.contains("not_connected"))
            let status = try await gateway.run("cloud", "status", "--json")
            #expect(status.status == 0, "\(status.errors)")
            try await check("cloud_status", status.output)
            #expect(cloud.state.requests.isEmpty)
        }
    }

    @Test("an account is connected, fetched into the store as kinds, shown and disconnected", arguments: [false, true])
    func whole(direct: Bool) async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud, direct: direct)
            let (command, page) = try await gateway.begin("whoop", "--json")
            #expect(command.outputText.isEmpty)
            #expect(try await gateway.browse(page).contains("You may close this page"))
            let connected = await command.finish()
            #expect(connected.status == 0, "\(connected.errors)")
            try await check("cloud_connect", connected.output)
            if !direct { try await gateway.connect("garmin") }

            let fetched = try await gateway.run("cloud", "fetch", "--json")
            #expect(fetched.status == 0, "\(fetched.errors)")
            try await check("cloud_fetch", fetched.output)
            #expect(
                fetched.output.contains(
                    #""stored":36,"revised":0,"present":0,"unreadable":0,"unscored":1,"pruned":0,"#),
                "\(fetched.output)")
            let readings = try await gateway.readings()
            func reading(_ kind: String, _ provider: String = "whoop") throws -> [String: Any] {
                try #require(readings.first { $0["kind"] as? String == kind && $0["provider"] as? String == provider })
            }
            #expect((try reading("hrv")["hrv"] as? [String: Any])?["rmssd"] as? Double == 31.813562)
            #expect(!readings.contains { $0["kind"] as? String == "heart_rate" })
            #expect(
                readings.contains { ($0["other"] as? [String: Any])?["type"] as? String == "resting_heart_rate" })
            #expect((try reading("spo2")["spo2"] as? [String: Any])?["value"] as? Double == 95.6875)
            #expect((try reading("sleep")["sleep"] as? [String: Any])?["type"] as? String == "sleep")
            if !direct {
                #expect((try reading("weight", "garmin")["weight"] as? [String: Any])?["value"] as? Double == 70.125)
                #expect((try reading("activity", "garmin")["activity"] as? [String: Any])?["value"] as? Int == 4210)
                // The workout is newer than the day.
                let metrics = try await gateway.run("metrics", "--json")
                #expect(metrics.status == 0, "\(metrics.errors)")
                #expect(metrics.output.contains(#""steps":4210"#), "\(metrics.output)")
                try await check("metrics", metrics.output)
            }
            for reading in readings { #expect(reading["person"] as? String == "ann" && reading["excluded"] is NSNull) }

            // The same again changes nothing.
            let frames = try await gateway.run("store", "stats", "--json").output.firstMatch(of: /"frames":\d+/)?.0
            let again = try await gateway.run("cloud", "fetch", "whoop", "--json")
            #expect(again.output.contains(#""stored":0,"revised":0,"present":36"#), "\(again.output)")
            #expect(
                try await gateway.run("store", "stats", "--json").output.firstMatch(of: /"frames":\d+/)?.0 == frames)
            try await gateway.verify()

            let status = try await gateway.run("cloud", "status", "--json")
            try await check("cloud_status", status.output)
            for text in [fetched, again, status, connected].map({ $0.output + $0.errors }) {
                #expect(!text.contains("access-") && !text.contains("refresh-") && !text.contains("client-secret"))
            }
            let gone = try await gateway.run("cloud", "disconnect", "whoop", "--json")
            #expect(gone.status == 0 && gone.output.contains(#""service_told":true"#), "\(gone.output)\(gone.errors)")
            try await check("cloud_disconnect", gone.output)
            #expect(try await gateway.readings().count == readings.count)
        }
    }

    @Test("what is scored later becomes a revision, and an older version that comes again changes nothing")
    func revisions() async throws {
        var state = EmulatedCloud.State()
        let (early, late) = (
            CloudRecords.sleep("n", at: Self.noon - 40_000, isScored: false),
            CloudRecords.sleep("n", at: Self.noon - 40_000)
        )
        state.records["whoop/sleep"] = [early]
        state.records["whoop/recovery"] = [CloudRecords.recovery(1, at: Self.noon - 3600, score: nil)]
        try await EmulatedCloud.with(state) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            let first = try await gateway.run("cloud", "fetch", "--json")
            #expect(
                first.output.contains(#""stored":1,"revised":0,"present":0,"unreadable":0,"unscored":1"#),
                "\(first.output)")
            cloud.change {
                $0.records["whoop/sleep"] = [late]
                $0.records["whoop/recovery"] = [CloudRecords.recovery(1, at: Self.noon - 3600)]
            }
            let second = try await gateway.run("cloud", "fetch", "--json")
            #expect(second.output.contains(#""stored":4,"revised":1,"present":0"#), "\(second.output)")
            func score() async throws -> String? {
                let readings = try await gateway.readings("sleep")
                #expect(readings.count == 1)
                return ((readings.first?["sleep"] as? [String: Any])?["metadata"] as? [String: String])?["score_state"]
            }
            #expect(try await score() == "SCORED")
            // An answer that was kept on the way.
            cloud.change { $0.records["whoop/sleep"] = [early] }
            #expect(try await gateway.run("cloud", "fetch", "--json").output.contains(#""revised":0"#))
            #expect(try await score() == "SCORED")
            // A night that the person corrected has another beginning, and a variability another value.
            cloud.change {
                $0.records["whoop/sleep"] = [CloudRecords.sleep("n", at: Self.noon - 36_000)]
                $0.records["whoop/recovery"] = [CloudRecords.recovery(1, at: Self.noon - 3600, hrv: 40)]
            }
            #expect(try await gateway.run("cloud", "fetch", "--json").output.contains(#""stored":0,"revised":2"#))
            let night = try await gateway.readings("sleep").first
            #expect(night?["time"] as? String == CloudRecords.time(Self.noon - 36_000))
            let variability = try await gateway.readings("hrv")
            #expect(variability.count == 1)
            #expect((variability.first?["hrv"] as? [String: Any])?["rmssd"] as? Int == 40)
            try await gateway.verify()
        }
    }

    @Test(
        "a fetch that is killed loses nothing and doubles nothing",
        arguments: [
            "cloud.fetch.after-page", "cloud.fetch.after-page:3", "imports.before-commit", "imports.after-commit",
            "imports.before-commit:2", "cloud.renew.before-keeping",
        ])
    func killed(_ point: String) async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud, direct: true)
            try await gateway.connect("whoop")
            if point.contains("renew") { cloud.change { $0.expireAccess() } }
            let killed = try await gateway.run("cloud", "fetch", crashAt: point)
            try #require(killed.signal == SIGKILL, "\(point) was never reached: \(killed.errors)")
            let next = try await gateway.run("cloud", "fetch", "--json")
            if point.contains("renew") {
                // The new tokens were lost with the process: only the person can connect again, and is told so.
                #expect(next.status == 77 && next.errors.contains("token_expired"), "\(next.errors)")
                try await gateway.connect("whoop")
                #expect(try await gateway.run("cloud", "fetch").status == 0)
            } else {
                #expect(next.status == 0, "\(next.errors)")
            }
            #expect(try await gateway.readings().count == 36)
            try await gateway.verify()
        }
    }

    @Test("who refuses, comes with another state, or never comes back connects nothing")
    func refused() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            cloud.change { $0.decision = .deny }
            let (denying, page) = try await gateway.begin("whoop", "--json")
            _ = try await gateway.browse(page)
            let denied = await denying.finish()
            #expect(denied.status == 77 && denied.errors.contains("access_denied"), "\(denied.errors)")
            #expect(denied.errors.contains("authentication_failed"))

            // A redirect with another state is refused, and waited on.
            cloud.change { $0.decision = .wrongState }
            let (waiting, second) = try await gateway.begin("whoop", "--wait", "60")
            #expect(try await gateway.browse(second).hasSuffix("400"))
            #expect(cloud.count("POST /v1/whoop/oauth/callback") == 0)
            cloud.change { $0.decision = .accept }
            // The right one, twice.
            let target = try #require(
                try await Tool.other("curl", ["-s", "-w", "%{redirect_url}", "-o", "/dev/null", second]).output
                    .firstMatch(of: /http.*/).map { String($0.0) })
            _ = try await gateway.browse(target)
            _ = try await gateway.browse(target)
            #expect(await waiting.finish().status == 0)
            #expect(cloud.count("POST /v1/whoop/oauth/callback") == 1)
            _ = try await gateway.run("cloud", "disconnect", "whoop")

            cloud.change { $0.codesExpire = true }
            let (expiring, third) = try await gateway.begin("whoop")
            _ = try await gateway.browse(third)
            let expired = await expiring.finish()
            #expect(expired.status == 77 && expired.errors.contains("code expired"), "\(expired.errors)")

            let (nobody, _) = try await gateway.begin("whoop", "--wait", "1", "--json")
            let late = await nobody.finish()
            #expect(late.status == 75 && late.errors.contains(#""code":"timeout""#), "\(late.errors)")
            #expect(!FileManager.default.fileExists(atPath: gateway.scratch.state + "/cloud/whoop.json"))
        }
    }

    @Test("what goes wrong at the service has its code and status, and the next fetch goes on")
    func faults() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            for (fault, status, code) in [
                (EmulatedCloud.Fault.html, Int32(76), "not_json"), (.status(500), 75, "server_error"),
                (.status(302), 76, "redirected"), (.status(403), 77, "forbidden"), (.half, 75, "connection_lost"),
                (.lyingCursor, 76, "pages_do_not_advance"), (.status(401), 77, "token_expired"),
            ] {
                cloud.change { $0.fail("/data/user-of-whoop/sleep", fault, times: 5) }
                let failed = try await gateway.run("cloud", "fetch", "--json")
                #expect(failed.status == status && failed.errors.contains(code), "\(fault): \(failed.errors)")
                cloud.change { $0.forgetFaults() }
            }
            let elsewhere = try await Tool.run(
                ["cloud", "fetch", "--json", "--state-dir", gateway.scratch.state],
                environment: gateway.environment.merging(["HEALTHRELAY_CLOUD_APP_ID": "other"]) { $1 })
            #expect(elsewhere.status == 78 && elsewhere.errors.contains("other_service"), "\(elsewhere.errors)")
            cloud.change { $0.fail("recovery", .status(429, retryAfter: "7200")) }
            let limited = try await gateway.run("cloud", "fetch", "--json")
            #expect(limited.status == 75 && limited.errors.contains("rate_limit_exceeded"), "\(limited.errors)")
            let asked = cloud.state.requests.count
            #expect(try await gateway.run("cloud", "fetch").status == 75)
            #expect(cloud.state.requests.count == asked)
            #expect(try await gateway.run("cloud", "status").output.contains("no requests before"))
        }
    }

    @Test(
        "the version that was updated last counts; without one the last answer; what the vendor takes back is withdrawn"
    )
    func versions() async throws {
        var state = EmulatedCloud.State()
        @Sendable func weight(_ grams: Int) -> [String] {
            [CloudRecords.garmin("b", at: Self.noon - 900, "\"weightInGrams\":\(grams)")]
        }
        @Sendable func recovery(_ hrv: Double?, updated: Double) -> [String] {
            [CloudRecords.recovery(1, at: Self.noon - 3600, hrv: hrv, updated: updated)]
        }
        state.records = ["garmin/bodyComps": weight(80_000), "whoop/recovery": recovery(40, updated: 600)]
        try await EmulatedCloud.with(state) { cloud in
            let gateway = try Gateway(cloud)
            for vendor in ["garmin", "whoop"] { try await gateway.connect(vendor) }
            func fetched(_ records: [String: [String]]) async throws -> Tool.Result {
                cloud.change { $0.records.merge(records) { $1 } }
                let result = try await gateway.run("cloud", "fetch", "--json")
                #expect(result.status == 0, "\(result.errors)")
                try await gateway.verify()
                return result
            }
            func weighed() async throws -> [Double] {
                try await gateway.readings("weight").compactMap {
                    (($0["weight"] as? [String: Any])?["value"] as? NSNumber)?.doubleValue
                }
            }
            func variability() async throws -> (Double?, String?) {
                let readings = try await gateway.readings("hrv")
                #expect(readings.count == 1)
                return (
                    ((readings.first?["hrv"] as? [String: Any])?["rmssd"] as? NSNumber)?.doubleValue,
                    readings.first?["excluded"] as? String
                )
            }
            for grams in [80_000, 81_000, 80_000] {
                _ = try await fetched(["garmin/bodyComps": weight(grams)])
                #expect(try await weighed() == [Double(grams) / 1000])
            }
            _ = try await fetched(["whoop/recovery": recovery(30, updated: 60)])
            #expect(try await variability() == (40, nil))
            _ = try await fetched(["whoop/recovery": recovery(nil, updated: 900)])
            #expect(try await variability() == (40, "withdrawn"))
            _ = try await fetched(["whoop/recovery": recovery(40, updated: 600)])
            #expect(try await variability().1 == "withdrawn")
            _ = try await fetched(["whoop/recovery": recovery(45, updated: 1200)])
            #expect(try await variability() == (45, nil))
            // A person's word stands.
            let id = try #require(try await gateway.readings("hrv").first?["id"] as? String)
            #expect(try await gateway.run("withdraw", id).status == 0)
            _ = try await fetched(["whoop/recovery": recovery(46, updated: 1500)])
            #expect(try await variability().1 == "withdrawn")
            try await gateway.verify()
        }
    }

    @Test("a Garmin day that goes on is one record under each of its ids, and the version that covers most counts")
    func grownDay() async throws {
        @Sendable func day(_ steps: Int, hours: Int) -> String {
            let seconds = hours * 3600
            return CloudRecords.garmin(
                "x2f-5fe4-\(String(seconds, radix: 16))", at: Self.noon - 90_000,
                #""steps":\#(steps),"restingHeartRateInBeatsPerMinute":\#(50 + hours)"#, seconds: seconds)
        }
        let (part, whole) = (day(1000, hours: 8), day(4210, hours: 24))
        try await EmulatedCloud.with(EmulatedCloud.State()) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("garmin")
            for (records, expected) in [([part], 1000), ([whole, part], 4210), ([part, whole], 4210), ([part], 4210)] {
                cloud.change { $0.records["garmin/dailies"] = records }
                let result = try await gateway.run("cloud", "fetch", "--json")
                #expect(result.status == 0, "\(result.errors)")
                let steps = try await gateway.readings("activity").compactMap {
                    (($0["activity"] as? [String: Any])?["value"] as? NSNumber)?.intValue
                }
                #expect(steps == [expected])
                let resting = try await gateway.readings("other")
                #expect(resting.count == 1)
                try await gateway.verify()
            }
        }
    }

    @Test("one account of a vendor: another person's is refused until the former one is disconnected")
    func anotherPerson() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            let other = try await Tool.run(
                ["cloud", "connect", "whoop", "--json", "--state-dir", gateway.scratch.state],
                environment: gateway.environment.merging(["HEALTHRELAY_USER_CLIENT_USER_ID": "bob"]) { $1 })
            #expect(other.status == 78 && other.errors.contains("account_of_another"), "\(other.errors)")
        }
    }

    @Test("an account of somebody without a name is not connected; one from before is nobody's, and goes with anybody")
    func unnamed() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            let refused = try await Tool.run(
                ["cloud", "connect", "whoop", "--json", "--state-dir", gateway.scratch.state],
                environment: gateway.environment.filter { $0.key != "HEALTHRELAY_USER_CLIENT_USER_ID" })
            #expect(refused.status == 78 && refused.errors.contains("no_user"), "\(refused.errors)")
            #expect(cloud.state.requests.isEmpty)

            try await gateway.connect("whoop")
            let file = gateway.scratch.state + "/cloud/whoop.json"
            func forgetPerson() throws {
                let text = try String(contentsOfFile: file, encoding: .utf8)
                #expect(text.contains(#""person":"ann""#))
                try text.replacing(#""person":"ann""#, with: #""person":"""#)
                    .write(toFile: file, atomically: false, encoding: .utf8)
            }
            try forgetPerson()
            let asked = cloud.state.requests.count
            let failed = try await gateway.run("cloud", "fetch", "--json")
            #expect(failed.status == 78 && failed.errors.contains("no_user"), "\(failed.errors)")
            #expect(failed.errors.contains("healthrelay cloud connect whoop"), "\(failed.errors)")
            #expect(cloud.state.requests.count == asked)
            try await gateway.connect("whoop")
            #expect(try await gateway.run("cloud", "fetch").status == 0)

            try forgetPerson()
            let erased = try await gateway.run("store", "forget", "--user", "ann", "--yes")
            #expect(erased.status == 0, "\(erased.errors)")
            let status = try await gateway.run("cloud", "status", "--json")
            #expect(status.output.contains(#""accounts":[]"#), "\(status.output)")
        }
    }

    @Test("readings that were moved to the right person are not stored again once the account is connected for them")
    func moved() async throws {
        var state = EmulatedCloud.State()
        state.records["whoop/recovery"] = [CloudRecords.recovery(1, at: Self.noon - 3600)]
        state.records["whoop/sleep"] = [CloudRecords.sleep("n", at: Self.noon - 40_000, isScored: false)]
        try await EmulatedCloud.with(state) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            #expect(try await gateway.run("cloud", "fetch", "--json").output.contains(#""stored":5,"#))
            let known = try await Tool.run(
                ["cloud", "status", "--state-dir", gateway.scratch.state],
                environment: gateway.environment.merging(["HEALTHRELAY_USER_CLIENT_USER_ID": "bob"]) { $1 })
            #expect(known.status == 0, "\(known.errors)")
            let ids = try await gateway.readings().compactMap { $0["id"] as? String }
            let moved = try await Tool.run(
                ["move"] + ids + ["--to-person", "bob", "--yes", "--state-dir", gateway.scratch.state],
                environment: gateway.environment)
            #expect(moved.status == 0, "\(moved.errors)")
            #expect(try await gateway.run("cloud", "disconnect", "whoop").status == 0)
            let (command, page) = try await gateway.begin("whoop", "--person", "bob")
            _ = try await gateway.browse(page)
            let connected = await command.finish()
            #expect(connected.status == 0, "\(connected.errors)")

            // What the vendor says anew is a revision all the same.
            cloud.change { $0.records["whoop/sleep"] = [CloudRecords.sleep("n", at: Self.noon - 40_000)] }
            for counts in [#""stored":0,"revised":1,"present":4"#, #""stored":0,"revised":0,"present":5"#] {
                let fetched = try await gateway.run("cloud", "fetch", "--json")
                #expect(fetched.output.contains(counts), "\(fetched.output)\(fetched.errors)")
            }
            let people = try await gateway.readings().map { $0["person"] as? String }
            #expect(people == [String?](repeating: "bob", count: 5))
            // And so is what it takes back.
            cloud.change {
                $0.records["whoop/recovery"] = [CloudRecords.recovery(1, at: Self.noon - 3600, score: nil, updated: 90)]
            }
            let fetched = try await gateway.run("cloud", "fetch", "--json")
            #expect(fetched.output.contains(#""stored":0,"#), "\(fetched.output)\(fetched.errors)")
            let excluded = try await gateway.readings().filter { $0["excluded"] as? String == "withdrawn" }
            #expect(!excluded.isEmpty, "\(fetched.output)")
            try await gateway.verify()
        }
    }

    @Test("a fetch tells the service of a former disconnect, also where nothing else is connected")
    func tellsOfDisconnect() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("garmin")
            cloud.change { $0.fail("/garmin/oauth/disconnect", .status(500), times: 3) }
            #expect(try await gateway.run("cloud", "disconnect", "garmin").status == 0)
            #expect(
                try await gateway.run("cloud", "status", "--json").output.contains(#""pending":[{"vendor":"garmin""#))
            cloud.change { $0.forgetFaults() }
            let fetched = try await gateway.run("cloud", "fetch")
            #expect(
                fetched.status == 78 && fetched.errors.contains("told of the former disconnect"), "\(fetched.errors)")
            #expect(try await gateway.run("cloud", "status", "--json").output.contains(#""pending":[]"#))
            #expect(cloud.state.connected.isEmpty)
        }
    }

    @Test("disconnecting without a network erases the tokens, and tells the service later")
    func offline() async throws {
        let scratch = try Scratch()
        let memory = scratch.url.appendingPathComponent("cloud.json")
        let gateway = try await EmulatedCloud.with(Self.state(), file: memory) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            return gateway
        }
        let gone = try await gateway.run("cloud", "disconnect", "whoop", "--json")
        #expect(
            gone.status == 0 && gone.output.contains(#""disconnected":true,"service_told":false"#), "\(gone.output)")
        try await check("cloud_disconnect", gone.output)
        #expect(gone.errors.contains("no_connection"))
        let status = try await gateway.run("cloud", "status", "--json")
        try await check("cloud_status", status.output)
        #expect(status.output.contains(#""accounts":[],"pending":[{"vendor":"whoop""#), "\(status.output)")
    }

    @Test("who is erased is disconnected, too")
    func erased() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud)
            try await gateway.connect("whoop")
            let erased = try await gateway.run("store", "forget", "--user", "ann", "--yes")
            #expect(erased.status == 0, "\(erased.errors)")
            let status = try await gateway.run("cloud", "status", "--json")
            #expect(status.output.contains(#""accounts":[],"pending":[{"#), "\(status.output)")
            let told = try await gateway.run("cloud", "disconnect", "whoop", "--json")
            #expect(told.output.contains(#""disconnected":false,"service_told":true,"pending":[]"#), "\(told.output)")
            #expect(cloud.state.connected.isEmpty)
        }
    }

    @Test("the running gateway fetches by itself, and two commands at once renew once")
    func service() async throws {
        try await EmulatedCloud.with(Self.state()) { cloud in
            let gateway = try Gateway(cloud, direct: true)
            try await gateway.connect("whoop")
            let run = try Tool.Running(
                ["run", "--state-dir", gateway.scratch.state],
                environment: gateway.environment.merging([
                    "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_CLOUD_EVERY": "15m",
                ]) { $1 }, in: gateway.scratch.url)
            #expect(await run.wait { $0.errorText.contains("Page at ") }, "\(run.errorText)")
            #expect(await run.wait(60) { _ in cloud.count("GET /developer/v2/cycle") == 1 })
            #expect(await run.wait(60) { _ in (try? await gateway.readings().count) == 36 })
            cloud.change { $0.expireAccess() }
            async let first = gateway.run("cloud", "fetch")
            async let second = gateway.run("cloud", "fetch")
            let statuses = try await [first.status, second.status]
            #expect(statuses == [0, 0])
            #expect(cloud.state.renewals == 1 && cloud.state.reuses == 0)
            run.kill(SIGTERM)
            #expect(await run.finish().status == 0)
            #expect(!run.errorText.contains("access-") && !run.errorText.contains("client-secret"))
        }
    }
}
