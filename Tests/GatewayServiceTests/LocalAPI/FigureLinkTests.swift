import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import LogLines
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import LocalAPI

extension Household {
    /// Makes a read-only link as the command does; gives its address and its number.
    func link(
        _ person: Int, period: String = "3650d", until: Instant = Instant(seconds: Instant.systemClock.seconds + 3600)
    ) async throws -> (url: String, number: Int64) {
        let output = Collected()
        let creation = FigureLinkCreation(
            person: people[person], period: period, until: until.flooredToSecond.description, name: "Dr. Sommer")
        try await api.gateway.run(
            OperationRequest(.figureLink(.create(creation)), json: true), output: output)
        let document = try #require(
            try JSONSerialization.jsonObject(with: Data(output.data.joined().utf8)) as? [String: Any])
        return (
            try #require(document["url"] as? String), try #require((document["number"] as? NSNumber)?.int64Value)
        )
    }

    func secret(_ url: String) -> String { String(url.split(separator: "#").last ?? "") }
}

@Suite("Read-only links", .timeLimit(.minutes(5))) struct FigureLinkTests {
    @Test("a link opens the routes that show figures, and no other; it changes nothing, whatever it sends")
    func routes() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(0)
        let token = house.secret(try await house.link(0).url)
        for (route, permission) in PermissionTests.stated {
            let parts = route.split(separator: " ").map(String.init)
            let path = parts[1].replacing("{id}", with: "00000000").replacing("{kind}", with: "bp")
            let body = parts[0] == "GET" ? nil : "{}"
            let answer = try await house.api.peek(
                path, HTTPMethod(rawValue: parts[0]), headers: [("Authorization", "Bearer \(token)")], body: body)
            switch permission {
            case .open: #expect(![401, 403].contains(answer.status), "\(route): \(answer.text.prefix(200))")
            case .view: #expect(answer.status == 200, "\(route): \(answer.text.prefix(200))")
            case .read, .readHousehold, .program, .write, .owner, .metrics:
                #expect(
                    answer.status == 403 && answer.code == "link_shows_figures_only",
                    "\(route): \(answer.status) \(answer.text.prefix(200))")
            }
        }
        let session = try await house.get("/api/v1/session", token).object
        #expect(session["scope"] as? String == "read" && session["person"] as? String == house.people[0])
        #expect((session["link"] as? [String: Any])?["days"] as? Int == 3650 && session["csrf_token"] is NSNull)
        try await house.stop()
    }

    @Test("a link shows its own person and its own days alone, and gives no data to keep")
    func bounds() async throws {
        let house = try await Household(2)
        let (hers, _) = (try await house.glucose(0), try await house.glucose(1))
        let token = house.secret(try await house.link(0, period: "7d").url)
        for (path, code) in [
            ("/api/v1/reports/glucose?format=fragment&period=8d", "outside_of_link"),
            ("/api/v1/reports/glucose?format=fragment&from=2026-11-01", "outside_of_link"),
            ("/api/v1/reports/glucose?format=fragment&to=2026-11-20", "outside_of_link"),
            ("/api/v1/reports/glucose?format=json", "link_shows_figures_only"),
            ("/api/v1/reports/glucose?format=csv", "link_shows_figures_only"),
            ("/api/v1/reports/glucose?format=fragment&person=\(house.people[1])", "other_person"),
            ("/api/v1/view?person=\(house.people[1])", "other_person"),
            ("/api/v1/readings/\(hers)", "link_shows_figures_only"),
        ] {
            let answer = try await house.get(path, token)
            #expect(answer.status == 403 && answer.code == code, "\(path): \(answer.text)")
        }
        let fragment = try await house.get("/api/v1/reports/glucose?format=fragment&period=7d", token)
        #expect(fragment.status == 200 && !fragment.text.contains("period before"))
        let view = try await house.get("/api/v1/view", token)
        #expect(view.object["person"] as? String == house.people[0] && view.object["days"] as? Int == 7)
        #expect(!view.text.contains(house.people[1]) && !view.text.contains("C0:00:00"))
        try await house.stop()
    }

    @Test("a link shows no device, no list of readings, no note and nobody who left one out, in any format")
    func figuresAlone() async throws {
        let house = try await Household(2)
        let left = try await house.glucose(0)
        _ = try await house.glucose(0)
        let own = try await house.api.token()
        let omitted = try await house.api.send(
            "/api/v1/readings/figures", .POST, token: own,
            body: #"{"ids":["\#(left)"],"left_out":true,"reason":"hands not washed"}"#)
        #expect(omitted.status == 200, "\(omitted.text)")
        for (kind, value, unit) in [
            ("glucose", "5.6", "mmol/L"), ("blood_pressure", "128/82", "mmHg"), ("spo2", "97", "%"),
        ] {
            let entry =
                #"{"kind":"\#(kind)","value":"\#(value)","unit":"\#(unit)","time":"2026-11-20T06:30:00Z","#
                + #""note":"a quarrel at home"}"#
            let entered = try await house.api.send("/api/v1/readings", .POST, token: own, body: entry)
            #expect(entered.status == 201, "\(entered.text)")
        }
        for kind in ["glucose", "bp", "spo2"] {
            let path = "/api/v1/reports/\(kind)?format=fragment&period=3650d&person=\(house.people[0])"
            #expect(try await house.get(path, own).text.contains("quarrel"), "\(kind)")
        }
        let token = house.secret(try await house.link(0).url)
        for format in ["fragment", "html", "svg"] {
            for kind in ["glucose", "bp", "sensor", "weight", "spo2"] {
                let path = "/api/v1/reports/\(kind)?format=\(format)"
                let answer = try await house.get(path, token)
                #expect(answer.status == 200, "\(path): \(answer.text.prefix(200))")
                for words in ["Devices", "C0:00:00", "generic_glucose", "All readings", "hands not washed", "quarrel"] {
                    #expect(!answer.text.contains(words), "\(path): \(words)")
                }
            }
        }
        // Whoever may read everything sees it.
        let whole = try await house.get(
            "/api/v1/reports/glucose?format=html&period=3650d&person=\(house.people[0])", own)
        #expect(whole.text.contains("Devices") && whole.text.contains("hands not washed"), "\(whole.status)")
        let pdf = try await house.get("/api/v1/reports/glucose?format=pdf", token)
        #expect([200, 503].contains(pdf.status))
        try await house.stop()
    }

    @Test("a link's report of weights begins with its own days: no trend and no change tells of those before")
    func weights() async throws {
        let house = try await Household(1)
        let own = try await house.api.token()
        for (days, weight) in [(20, "90"), (0, "80")] as [(Int64, String)] {
            let time = Instant(seconds: Instant.systemClock.seconds - 60 - days * 86_400)
            let entry = #"{"kind":"weight","value":"\#(weight)","unit":"kg","time":"\#(time.description)"}"#
            let entered = try await house.api.send("/api/v1/readings", .POST, token: own, body: entry)
            #expect(entered.status == 201, "\(entered.text)")
        }
        let path = "/api/v1/reports/weight?format=html&period=7d"
        let whole = try await house.get(path + "&person=\(house.people[0])", own)
        #expect(whole.text.contains("trend from 81.") && !whole.text.contains("needs two weeks"), "\(whole.text)")
        let shown = try await house.get(path, house.secret(try await house.link(0, period: "7d").url))
        #expect(shown.text.contains("trend from 80.0 to 80.0 kg") && shown.text.contains("needs two weeks"))
        #expect(shown.text.contains("nothing before it counts") && !shown.text.contains("in every period"))
        try await house.stop()
    }

    @Test("a link's events say that something has changed, and nothing of it")
    func events() async throws {
        let house = try await Household(2)
        let token = house.secret(try await house.link(0).url)
        let live = try await house.api.events(token: token) {
            _ = try await house.glucose(1)
            _ = try await house.glucose(0)
        } until: {
            $0.contains("event: reading")
        }
        #expect(live.contains("event: reading\ndata: {}\n") && !live.contains("mg/dL") && !live.contains("\"id\""))
        try await house.stop()
    }

    @Test("a link that has ended, was revoked, is wrong or whose person was removed opens nothing; its stream ends")
    func ends() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(0)
        let (url, number) = try await house.link(0)
        let token = house.secret(url)
        #expect(try await house.get("/api/v1/view", token).status == 200)
        let wrong = String(token.dropLast()) + (token.last == "0" ? "1" : "0")
        for each in [wrong, "", String(repeating: "0", count: 64), token.uppercased()] {
            #expect(try await house.get("/api/v1/view", each).status == 401)
        }
        let end = Instant(seconds: Instant.systemClock.seconds + 300)
        let short = house.secret(try await house.link(0, until: end).url)
        #expect(try await house.get("/api/v1/view", short).status == 200)
        let past = end.advanced(bySeconds: 1)
        #expect(
            try await house.api.door.clients.client(
                with: AccessToken(text: short), now: Date(timeIntervalSince1970: Double(past.seconds))) == nil)
        #expect(
            try await house.api.door.clients.client(
                with: AccessToken(text: token), now: Date(timeIntervalSince1970: Double(past.seconds))) != nil)

        let output = Collected()
        try await house.api.gateway.run(OperationRequest(.figureLink(.revoke(number)), json: true), output: output)
        #expect(output.data == [#"{"revoked":1}"#])
        for path in ["/api/v1/view", "/api/v1/reports/bp?format=fragment", "/api/v1/events"] {
            #expect(try await house.get(path, token).status == 401, "\(path)")
        }
        await #expect(throws: Problem.self) {
            try await house.api.gateway.run(OperationRequest(.figureLink(.revoke(number)), json: true), output: output)
        }
        // A program is no link.
        let program = try await house.api.door.clients.admit(
            "x", as: .client, for: .owner, now: Date(), expiresAt: Date() + 600)
        await #expect(throws: Problem.self) {
            try await house.api.gateway.run(
                OperationRequest(.figureLink(.revoke(program.client.number)), json: true), output: output)
        }
        let other = house.secret(try await house.link(1).url)
        _ = try await house.api.door.clients.revoke(people: [house.people[1]], now: Date())
        #expect(try await house.get("/api/v1/view", other).status == 401)
        try await house.stop()
    }

    @Test(
        "the secret is stored as a hash, and in no log; the audit log says when the link was made, opened and revoked")
    func secrecy() async throws {
        let house = try await Household(1)
        let (url, number) = try await house.link(0)
        let token = house.secret(url)
        #expect(token.count == 64 && url.hasPrefix(house.api.door.pageAddress + "#"))
        _ = try await house.get("/api/v1/session", token)
        _ = try await house.get("/api/v1/view", token)
        _ = try await house.api.door.clients.revoke(number, now: Date())
        let entries = try await house.api.door.audit.newest(100).filter { $0.client == number }
        #expect(Set(entries.map(\.event)).isSuperset(of: ["link_made", "link_opened", "request"]))
        #expect(entries.allSatisfy { $0.grant?.person == house.people[0] })
        await house.api.door.audit.flush()
        let directory = house.api.gateway.store.directory
        for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let octets = FileManager.default.contents(atPath: directory + "/" + file) ?? Data()
            #expect(octets.range(of: Data(token.utf8)) == nil, "\(file)")
        }
        #expect(!house.api.log.text.contains(token))
        try await house.stop()
    }

    @Test("what makes no link is refused: nobody's, no days, an end that is past or too far")
    func refused() async throws {
        let house = try await Household(1)
        let (own, hour) = (house.people[0], Instant(seconds: Instant.systemClock.seconds + 3600).description)
        // Each has one fault.
        let wrong: [(creation: FigureLinkCreation, code: String, words: String)] = [
            (FigureLinkCreation(person: "nobody", until: hour), "no_such_user", "'nobody'"),
            (FigureLinkCreation(person: "", until: hour), "no_such_user", "''"),
            (FigureLinkCreation(person: own, period: "0d", until: hour), "usage", "--period"),
            (FigureLinkCreation(person: own, period: "two weeks", until: hour), "usage", "--period"),
            (FigureLinkCreation(person: own, until: "2020-01-01"), "usage", "--until"),
            (FigureLinkCreation(person: own, until: "2199-01-01"), "usage", "--until"),
            (FigureLinkCreation(person: own, until: "tomorrow"), "usage", "--until"),
        ]
        for (creation, code, words) in wrong {
            let problem = await #expect(throws: Problem.self) {
                try await house.api.gateway.run(
                    OperationRequest(.figureLink(.create(creation)), json: true), output: Collected())
            }
            #expect(problem?.code == code && problem?.message.contains(words) == true, "\(creation)")
        }
        #expect(try await house.api.door.clients.clients().isEmpty)
        try await house.stop()
    }
}
