import Foundation
import Testing

/// Several destinations of one gateway: real processes, two servers and a file.
@Suite(.serialized, .timeLimit(.minutes(10))) struct DestinationsTests {
    /// A gateway's files, and the settings that name its destinations.
    private final class Place {
        let scratch: Scratch
        let config: URL
        let file: URL
        /// What ``counts()`` found last.
        private(set) var last: [String: String] = [:]

        init() throws {
            scratch = try Scratch()
            config = scratch.url.appendingPathComponent("config.yaml")
            file = scratch.url.appendingPathComponent("readings.jsonl")
        }

        func settings(_ destinations: String...) throws {
            let text = """
                user: {client_user_id: white_bear, time_zone: Europe/Berlin}
                http: {listen: "127.0.0.1:0"}
                destinations:

                """
            try (text + destinations.map { "  - \($0)\n" }.joined()).write(
                to: config, atomically: true, encoding: .utf8)
        }

        func server(_ name: String, _ server: Sandboxed, _ more: String = "") -> String {
            let key = scratch.url.appendingPathComponent("sandbox-key").path
            return "{name: \(name), kind: vital, base_url: \"\(server.baseURL)\", api_key_file: \(key)\(more)}"
        }

        func start(_ captures: String...) throws -> Tool.Running {
            let replay = captures.isEmpty ? [] : ["--replay"] + captures.map { Tool.fixture($0 + ".btsnoop") }
            return try Tool.Running(
                ["run", "--config", config.path, "--state-dir", scratch.state] + replay, environment: [:],
                in: scratch.url)
        }

        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--config", config.path, "--state-dir", scratch.state])
        }

        /// `sync status`, by destination.
        func status() async throws -> [String: Document] {
            let status = try await run("sync", "status", "--json")
            let destinations = (try? Document(status.output))?.elements("destinations") ?? []
            return Dictionary(destinations.map { ($0["name"]?.plain ?? "", $0) }) { $1 }
        }

        /// How many readings each destination has, and how many wait for it.
        func counts() async -> [String: String] {
            last = ((try? await status()) ?? [:]).mapValues { status in
                let waiting = status.elements("waiting").compactMap { $0["count"].flatMap { Int($0.text) } }
                return "\(status["delivered"]?.text ?? "") \(waiting.reduce(0, +))"
            }
            return last
        }

        /// The ids in a file, a line each.
        func ids(_ file: URL) throws -> [String] {
            try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map {
                try #require(try Document(String($0))["id"]?.plain)
            }
        }
    }

    private func stop(_ run: Tool.Running) async {
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0, "\(run.errorText)")
    }

    @Test("one of three destinations is stopped: the others do not notice, and it gets what waited")
    func isolation() async throws {
        let place = try Place()
        let (clinic, home) = (try await Sandboxed(in: place.scratch), try await Sandboxed(in: place.scratch))
        try place.settings(
            place.server("clinic", clinic), place.server("home", home),
            "{name: backup, kind: file, path: \(place.file.path)}")
        let first = try place.start("cuff-three")
        #expect(
            await first.wait { _ in await place.counts() == ["clinic": "3 0", "home": "3 0", "backup": "3 0"] },
            "\(place.last) \(first.errorText)")
        await stop(first)

        home.process.kill(SIGSTOP)
        let second = try place.start("cuff-three", "glucose-first-delivery")
        #expect(
            await second.wait { _ in
                let counts = await place.counts()
                return counts["clinic"]?.hasSuffix(" 0") == true && counts["clinic"] != "3 0"
                    && counts["backup"] == counts["clinic"] && counts["home"]?.hasPrefix("3 ") == true
            }, "\(place.last) \(second.errorText)")
        let delivered = try #require(try await place.status()["clinic"]?["delivered"]?.text)
        #expect(try await clinic.samples == Int(delivered))
        #expect(try Set(place.ids(place.file)).count == Int(delivered))
        // Each reading says how it stands with each.
        let readings = try await Document(place.run("query", "--json").output).elements("readings")
        let states = Set(
            readings.map { reading in
                reading.elements("deliveries").map { "\($0["destination"]?.plain ?? "") \($0["state"]?.plain ?? "")" }
                    .filter { !$0.hasPrefix("home") }
            })
        #expect(states.subtracting([[]]) == [["clinic delivered", "backup delivered"]], "\(states)")
        #expect(try await place.run("sync", "--destination", "clinic").status == 0)

        home.process.kill(SIGCONT)
        #expect(
            await second.wait { _ in
                _ = try? await place.run("sync", "--destination", "home")
                return await place.counts()["home"] == "\(delivered) 0"
            }, "\(place.last)")
        #expect(try await home.samples == Int(delivered))
        await stop(second)
    }

    @Test("the settings remove, add and rename destinations, and one moves: each gets what the rules say")
    func changes() async throws {
        let place = try Place()
        let (clinic, home) = (try await Sandboxed(in: place.scratch), try await Sandboxed(in: place.scratch))
        let backup = "{name: backup, kind: file, path: \(place.file.path)}"
        try place.settings(place.server("clinic", clinic), backup)
        let first = try place.start("cuff-three")
        #expect(
            await first.wait { _ in await place.counts() == ["clinic": "3 0", "backup": "3 0"] },
            "\(place.last) \(first.errorText)")
        await stop(first)

        // The file is renamed and lies elsewhere, a server is new, and another is gone.
        let archive = place.scratch.url.appendingPathComponent("archive.jsonl")
        try place.settings(
            place.server("home", home, ", kinds: [blood_pressure]"),
            "{name: archive, kind: file, path: \(archive.path)}",
            "{name: recent, kind: file, path: \(archive.path).new, backfill_days: 0}")
        let second = try place.start()
        #expect(
            await second.wait { _ in await place.counts() == ["home": "3 0", "archive": "3 0", "recent": "0 0"] },
            "\(place.last) \(second.errorText)")
        #expect(try place.ids(archive).count == 3 && place.ids(place.file).count == 3)
        let listed = try await Document(place.run("destination", "list", "--json").output).elements("destinations")
        #expect(listed.map { $0["name"]?.plain } == ["home", "archive", "recent"])
        await stop(second)

        // What was removed holds up nothing: it gets no new readings and no longer keeps any from being pruned.
        let third = try place.start("glucose-first-delivery")
        #expect(
            await third.wait { _ in
                let counts = await place.counts()
                return counts["archive"]?.hasSuffix(" 0") == true && counts["archive"] != "3 0"
            }, "\(place.last) \(third.errorText)")
        #expect(try place.ids(place.file).count == 3)
        let held = try await place.status()["home"]?.elements("waiting").map { $0["held"]?.plain }
        #expect(Set(held ?? []) == ["not_selected"], "\(held ?? [])")
        await stop(third)

        // Another address is another place until somebody says that it is meant.
        try place.settings(place.server("home", clinic), "{name: archive, kind: file, path: \(archive.path)}")
        let fourth = try place.start()
        #expect(await fourth.wait { _ in await place.counts().count == 2 })
        let moved = try await place.status()["home"]?.elements("waiting").map { $0["held"]?.plain }
        #expect(Set(moved ?? []) == ["other_endpoint"], "\(moved ?? [])")
        let sync = try await place.run("sync")
        #expect(sync.status == 78 && sync.errors.contains("destination accept"), "\(sync.errors)")
        #expect(try await place.run("destination", "accept", "home").status == 0)
        #expect(
            await fourth.wait { _ in await place.counts()["home"]?.hasSuffix(" 0") == true },
            "\(place.last)")
        await stop(fourth)
    }

    @Test("a person has an id of their own at each server, and is removed at every one; a file takes back")
    func removal() async throws {
        let place = try Place()
        let (clinic, home) = (try await Sandboxed(in: place.scratch), try await Sandboxed(in: place.scratch))
        // Another person is there before, so that the two servers number people differently.
        _ = try await clinic.curl(
            "-X", "POST", "-H", "content-type: application/json", "-d", #"{"client_user_id":"other"}"#,
            clinic.baseURL + "/v2/user/")
        try place.settings(
            place.server("clinic", clinic), place.server("home", home),
            "{name: backup, kind: file, path: \(place.file.path)}")
        #expect(try await place.run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        let sync = try await place.run("sync")
        #expect(sync.status == 0, "\(sync.errors)")
        #expect(await place.counts() == ["clinic": "3 0", "home": "3 0", "backup": "3 0"])
        #expect(try await place.run("query", "--person", "white_bear", "--format", "ndjson").lines.count == 3)
        #expect(try await place.run("query", "--person", "brown_bear").status == 66)

        let removed = try await Document(place.run("user", "remove", "--yes", "--json").output)
        #expect(
            removed.elements("destinations").map { "\($0["name"]?.plain ?? "") \($0["result"]?.plain ?? "")" }
                == ["clinic removed", "home removed", "backup retracting"], "\(removed.text)")
        for (server, others) in [(clinic, ["other"]), (home, [])] {
            let users = try await Document(server.curl(server.baseURL + "/sandbox/users")).elements("users")
            #expect(users.compactMap { $0["client_user_id"]?.plain } == others)
        }
        #expect(try place.ids(place.file).count == 3)
        #expect(try await place.run("sync").status == 0)
        let lines = try String(contentsOf: place.file, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 6 && lines.suffix(3).allSatisfy { $0.contains(#""retracted":true"#) })
    }

    @Test("removing a person waits where the key is missing, an address has changed or a server is away; each says so")
    func refusedRemoval() async throws {
        let place = try Place()
        let (clinic, home) = (try await Sandboxed(in: place.scratch), try await Sandboxed(in: place.scratch))
        try place.settings(place.server("clinic", clinic), place.server("home", home))
        #expect(try await place.run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        #expect(try await place.run("sync").status == 0)
        func users(_ server: Sandboxed) async throws -> [String] {
            try await Document(server.curl(server.baseURL + "/sandbox/users")).elements("users")
                .compactMap { $0["client_user_id"]?.plain }
        }

        // Without the key nobody can check whose id it is.
        let key = place.scratch.state + "/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        let locked = try await place.run("user", "remove", "--yes")
        #expect(locked.status == 78 && locked.errors.contains("nothing was erased"), "\(locked.errors)")
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)

        // The new address is another server, which was never accepted.
        try place.settings(place.server("clinic", home), place.server("home", home))
        let changed = try await place.run("user", "remove", "--yes")
        #expect(changed.status == 78 && changed.errors.contains("clinic"), "\(changed.errors)")
        let list = try await place.run("source", "list")
        #expect(list.status == 78, "\(list.errors)")

        // One that is away is found out before the other has removed anybody.
        try place.settings(
            place.server("clinic", clinic),
            "{name: home, kind: vital, base_url: \"http://127.0.0.1:9\", api_key_file: "
                + place.scratch.url.appendingPathComponent("sandbox-key").path + "}")
        try await _ = place.run("destination", "accept", "home")
        let away = try await place.run("user", "remove", "--yes")
        #expect(away.status == 69 && away.errors.contains("nothing was erased here"), "\(away.errors)")
        #expect(try await users(clinic) == ["white_bear"])
        #expect(try await users(home) == ["white_bear"])
        #expect(try await place.run("query", "--format", "ndjson").lines.count == 3)

        // One that the settings no longer name is told of.
        try place.settings(place.server("clinic", clinic))
        let removed = try await Document(place.run("user", "remove", "--yes", "--json").output)
        #expect(
            removed.elements("destinations").map { "\($0["name"]?.plain ?? "") \($0["result"]?.plain ?? "")" }
                == ["clinic removed", "home untouched"], "\(removed.text)")
        #expect(try await users(clinic).isEmpty)
        #expect(try await users(home) == ["white_bear"])
    }

    @Test("settings that are changed while the key is missing count once it is back: nothing goes to another address")
    func lockedStart() async throws {
        let place = try Place()
        let moved = place.scratch.url.appendingPathComponent("moved.jsonl")
        let old = place.scratch.url.appendingPathComponent("old.jsonl")
        try place.settings(
            "{name: backup, kind: file, path: \(place.file.path)}", "{name: old, kind: file, path: \(old.path)}")
        #expect(try await place.run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        let key = place.scratch.state + "/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        try place.settings(
            "{name: backup, kind: file, path: \(moved.path)}", "{name: new, kind: file, path: \(old.path)}")
        let run = try place.start()
        #expect(
            await run.wait { _ in FileManager.default.fileExists(atPath: place.scratch.state + "/control.sock") },
            "\(run.errorText)")
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)
        #expect(
            await run.wait(60) { _ in
                guard let status = try? await place.status(), let backup = status["backup"] else { return false }
                return Set(backup.elements("waiting").map { $0["held"]?.plain }) == ["other_endpoint"]
                    && status["new"]?["delivered"]?.text == "3"
            }, "\(run.errorText)")
        #expect(!FileManager.default.fileExists(atPath: moved.path))
        await stop(run)
    }

    @Test("two destinations do not share a file")
    func sharedFile() async throws {
        let place = try Place()
        let path = place.file.path
        let other = place.file.deletingLastPathComponent().path + "/./" + place.file.lastPathComponent
        try place.settings("{name: one, kind: file, path: \(path)}", "{name: two, kind: file, path: \(other)}")
        #expect(try await place.run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        let sync = try await place.run("sync")
        #expect(sync.status == 78 && sync.errors.contains("one already writes to"), "\(sync.errors)")
        // A file gets whole readings: nothing of a composition stays here.
        let kept = try await place.status()["one"]?.elements("not_delivered").compactMap { $0["kind"]?.plain }
        #expect(kept == ["activity", "sleep", "other"])
        #expect(try place.ids(place.file).count == 3)
    }

    @Test("a destination whose settings cannot be used is paused, and the others deliver")
    func paused() async throws {
        let place = try Place()
        let clinic = try await Sandboxed(in: place.scratch)
        try place.settings(
            place.server("clinic", clinic), "{name: lost, kind: vital, api_key_file: /nonexistent/key}")
        let run = try place.start("cuff-three")
        #expect(
            await run.wait { _ in await place.counts() == ["clinic": "3 0", "lost": "0 3"] },
            "\(place.last) \(run.errorText)")
        #expect(run.errorText.contains("/nonexistent/key"), "\(run.errorText)")
        #expect(try await place.run("sync", "--destination", "clinic").status == 0)
        #expect(try await place.run("sync").status == 78)
        #expect(try await place.run("destination", "test", "lost").status == 78)
        await stop(run)
    }

    @Test("run --sandbox delivers to the sandbox alone, and what waits for the owner's server goes on waiting")
    func sandbox() async throws {
        let place = try Place()
        let clinic = try await Sandboxed(in: place.scratch)
        try place.settings(place.server("clinic", clinic))
        #expect(try await place.run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        let trial = try Tool.Running(
            ["run", "--sandbox", "--config", place.config.path, "--state-dir", place.scratch.state], environment: [:],
            in: place.scratch.url)
        #expect(
            await trial.wait { _ in await place.counts() == ["sandbox": "3 0"] }, "\(place.last) \(trial.errorText)")
        // The settings name it, and this run leaves it alone.
        for arguments in [["sync", "--destination", "clinic"], ["destination", "test", "clinic"]] {
            let alone = try await Tool.run(
                arguments + ["--config", place.config.path, "--state-dir", place.scratch.state])
            #expect(
                alone.status == 66 && alone.errors.contains("run --sandbox --destination clinic"), "\(alone.errors)")
        }
        let absent = try await place.run("sync", "--destination", "hospital")
        #expect(absent.status == 66 && absent.errors.contains("destinations: sandbox"), "\(absent.errors)")
        await stop(trial)
        #expect(try await clinic.samples == 0)
        let wrong = try await place.run("run", "--sandbox", "--destination", "hospital")
        #expect(wrong.status == 66 && wrong.errors.contains("destinations: sandbox, clinic"), "\(wrong.errors)")
        #expect(await place.counts() == ["clinic": "0 3"])
        let both = try Tool.Running(
            [
                "run", "--sandbox", "--destination", "sandbox", "--destination", "clinic", "--config",
                place.config.path, "--state-dir",
                place.scratch.state,
            ], environment: [:], in: place.scratch.url)
        #expect(
            await both.wait { _ in await place.counts() == ["sandbox": "3 0", "clinic": "3 0"] },
            "\(place.last) \(both.errorText)")
        await stop(both)
        #expect(try await clinic.samples == 3)
    }
}
