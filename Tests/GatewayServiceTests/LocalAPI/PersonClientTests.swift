import EmulatedRadio
import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

/// Clients that belong to one person of several.
@Suite("Clients of one person", .timeLimit(.minutes(5))) struct PersonClientTests {
    private func ids(_ answer: APIBench.Answer) -> [String] {
        (answer.object["readings"] as? [[String: any Sendable]] ?? []).compactMap { $0["id"] as? String }
    }

    @Test(
        "together the people's clients see what the owner sees of each, nobody sees another's, and all counts agree",
        arguments: [1, 2, 3, 4] as [UInt64])
    func partition(_ seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let size = Int.random(in: 2...4, using: &generator)
        let house = try await Household(size)
        var ledger: [Int: Set<String>] = [:]
        var nobodys: Set<String> = []
        for _ in 0..<30 {
            let person = Int.random(in: 0..<size, using: &generator)
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: nobodys.insert(try await house.pressure(slot: 9).description)
            case 1, 2: ledger[person, default: []].insert(try await house.pressure(slot: person + 1).description)
            default: ledger[person, default: []].insert(try await house.glucose(person).description)
            }
        }
        let owner = try await house.token(.owner, nil)
        let everything = ids(try await house.get("/api/v1/readings", owner))
        #expect(Set(everything) == ledger.values.reduce(nobodys) { $0.union($1) } && everything.count == 30)
        for person in 0..<size {
            let (mine, token) = (ledger[person] ?? [], try await house.token(.read, person))
            let seen = ids(try await house.get("/api/v1/readings", token))
            #expect(Set(seen) == mine && seen.count == mine.count, "seed \(seed), person \(person)")
            let asked = try await house.get("/api/v1/readings?person=" + house.people[person], owner)
            #expect(ids(asked) == seen)
            // Page by page too.
            var (paged, cursor): ([String], String?) = ([], nil)
            repeat {
                let next = cursor.map { "&cursor=" + $0 } ?? ""
                let page = try await house.get("/api/v1/readings?limit=3" + next, token)
                paged += ids(page)
                cursor = page.object["more"] as? Bool == true ? page.object["cursor"] as? String : nil
            } while cursor != nil
            #expect(paged == seen)
            for id in everything {
                let answer = try await house.get("/api/v1/readings/" + id, token)
                if answer.status == 429 { break }
                #expect(answer.status == (mine.contains(id) ? 200 : 404), "seed \(seed)")
            }
            let fresh = try await house.token(.read, person)
            let counts = try await house.get("/api/v1/gateway", fresh).object["readings"] as? [String: any Sendable]
            #expect((counts ?? [:]).values.compactMap { $0 as? Int }.reduce(0, +) == mine.count)
            let devices = try await house.get("/api/v1/devices", fresh)
            let listed = devices.object["devices"] as? [[String: any Sendable]] ?? []
            #expect(listed.compactMap { $0["readings"] as? Int }.reduce(0, +) == mine.count)
            for other in 0..<size where other != person {
                #expect(!devices.text.contains(house.people[other]))
                #expect(!devices.text.contains(Household.meter(other).description), "seed \(seed)")
            }
            let body =
                #"{"startDate":"2020-01-01T00:00:00Z","endDate":"2099-01-01T00:00:00Z","types":["bloodGlucose","#
                + #""bloodPressureSystolic"],"limit":4}"#
            var samples: Set<String> = []
            for offset in stride(from: 0, through: 40, by: 4) {
                let text = body.dropLast() + ",\"offset\":\(offset)}"
                let answer = try await house.api.send(
                    "/api/v1/health/data", .POST, token: fresh, body: String(text))
                for sample in answer.object["samples"] as? [[String: any Sendable]] ?? [] {
                    let metadata = sample["metadata"] as? [String: any Sendable]
                    samples.insert(metadata?["readingId"] as? String ?? "")
                }
            }
            #expect(samples == mine, "seed \(seed), person \(person)")
            let key = try await house.key(person)
            let ring = try await house.api.events(token: fresh, last: "0") {
                house.api.hub.post("sync", to: .person(key), .object(["end": true]))
            } until: {
                $0.contains("\"end\"")
            }
            #expect(mine.allSatisfy(ring.contains), "seed \(seed)")
            #expect(!Set(everything).subtracting(mine).contains(where: ring.contains), "seed \(seed)")
        }
        try await house.stop()
    }

    @Test("a request for another person is refused alike whether or not there is one; an owner may ask for anybody")
    func asking() async throws {
        let house = try await Household(2)
        let (hers, all) = (try await house.token(.write, 0), try await house.token(.read, nil))
        for path in ["readings", "devices", "gateway", "sources", "consent", "events"] {
            let there = try await house.api.peek(
                "/api/v1/\(path)?person=\(house.people[1])", headers: [("Authorization", "Bearer " + hers)])
            let nobody = try await house.api.peek(
                "/api/v1/\(path)?person=nobody", headers: [("Authorization", "Bearer " + hers)])
            #expect(there.status == 403 && there.code == "other_person" && there.text == nobody.text, "\(path)")
        }
        #expect(try await house.get("/api/v1/readings?user=" + house.people[1], hers).status == 403)
        #expect(try await house.get("/api/v1/readings?person=" + house.people[0], hers).status == 200)
        #expect(try await house.get("/api/v1/readings?person=" + house.people[1], all).status == 200)
        #expect(try await house.get("/api/v1/readings?person=nobody", all).status == 404)
        #expect(try await house.get("/api/v1/readings?person=a&user=b", all).status == 400)
        #expect(try await house.get("/api/v1/sync?person=" + house.people[1], all).status == 400)
        try await house.stop()
    }

    @Test("somebody without a name is asked for by an empty one, as long as nobody has named them")
    func unnamed() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters"])
        try await bench.addAnna()
        let all = ids(try await bench.send("/api/v1/readings?limit=1000"))
        let own = try await bench.send("/api/v1/readings?limit=1000&person=")
        let annas = ids(try await bench.send("/api/v1/readings?limit=1000&person=anna"))
        #expect(own.status == 200 && annas.count == 1 && Set(ids(own)) == Set(all).subtracting(annas))
        #expect(ids(own).count == all.count - 1 && all.count > 1)
        let gateway = try await bench.send("/api/v1/gateway?person=")
        #expect(gateway.text.contains(#""user":null,"people":[{"id":null,"#), "\(gateway.text)")
        #expect(try await bench.send("/api/v1/devices?person=").status == 200)
        let hers = try await bench.token(for: try #require(AccessGrant(.read, person: "anna")))
        #expect(try await bench.send("/api/v1/readings?person=", token: hers).code == "other_person")
        _ = try await bench.gateway.store.setCurrentUser("ben", timeZone: "Europe/Berlin")
        #expect(try await bench.send("/api/v1/readings?person=").code == "no_such_user")
        try await bench.stop()
    }

    @Test("the ids of a person's events tell nothing of how many others there were, and are no other person's")
    func identifiers() async throws {
        let house = try await Household(1)
        let cursors = EventCursors(house.api.door.clients)
        let (anna, ben) = (UserKey(rawValue: 1), UserKey(rawValue: 2))
        func change(_ number: Int64) -> ChangePosition { ChangePosition(feed: "0123456789ab", number: number) }
        let id = try await cursors.text(change(3), for: anna)
        #expect(try await id.count == cursors.text(change(3_000_000), ring: (7, 9), for: anna).count)
        #expect(!id.contains("0123456789ab"))
        #expect(try await id == cursors.text(change(3), for: anna), "an event that is sent twice has the same id")
        #expect(try await id != cursors.text(change(3), for: ben))
        #expect(try await cursors.found(in: id, for: anna)?.change == change(3))
        #expect(try await cursors.found(in: id, for: anna)?.ring == nil)
        let place = try await cursors.text(change(3), ring: (7, 9), for: anna)
        let ring = try #require(try await cursors.found(in: place, for: anna)?.ring)
        #expect(ring == (7, 9))
        #expect(try await cursors.found(in: id, for: ben) == nil)
        #expect(try await cursors.found(in: id, for: nil) == nil)
        #expect(try await cursors.found(in: cursors.text(change(3), for: nil), for: anna) == nil)
        // Another process with the same list of clients opens them.
        #expect(try await EventCursors(house.api.door.clients).found(in: id, for: anna)?.change == change(3))
        for stray in ["", "00", String(repeating: "0", count: id.count), String(repeating: "0", count: 9999), "k3x-7"] {
            #expect(try await cursors.found(in: stray, for: anna) == nil)
        }
        try await house.stop()
    }

    @Test("who is removed: their clients are revoked, their streams end, their code is void; others go on")
    func removal() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(1)
        let invited = try await house.run(.client(.invite(.init(person: house.people[1]))))
        let (hers, his) = (try await house.token(.read, 0), try await house.token(.read, 1))
        let (api, people) = (house.api, house.people)
        let text = try await within(.seconds(20)) {
            try await api.events(token: his) {
                let operation = GatewayCommands.Operation.store(.forget(ForgetOperation(user: people[1])))
                try await api.gateway.run(OperationRequest(operation, json: true), output: Collected())
            } until: { _ in
                false
            }
        }
        #expect(text != nil, "the stream did not end")
        #expect(try await house.get("/api/v1/readings", his).status == 401)
        #expect(try await house.get("/api/v1/readings", hers).status == 200)
        let code = invited.object["code"] as? String ?? ""
        let late = try await api.send("/api/v1/pair", .POST, body: #"{"code":"\#(code)","clientName":"x"}"#)
        #expect(late.status == 400 && late.code == "not_invited")
        // Who takes the name later gets none of those clients.
        try await api.gateway.store.setPeople([
            StorePerson(clientUserID: people[1], timeZone: "Europe/Berlin", shares: [])
        ])
        #expect(try await house.get("/api/v1/readings", his).status == 401)
        let listed = try await house.run(.client(.list))
        #expect(listed.contains("\"person\":\"\"") && !listed.contains(people[1]))
        #expect(try await house.run(.client(.audit(limit: 100))).contains("\"revoked\""))
        try await house.stop()
    }

    @Test("a code lets a program and a browser in for its person and scope; the list and the audit log say so")
    func codes() async throws {
        let house = try await Household(2)
        let invited = try await house.run(.client(.invite(.init(person: house.people[1], name: "kitchen"))))
        #expect(invited.object["person"] as? String == house.people[1] && invited.object["scope"] as? String == "read")
        let paired = try await house.api.send(
            "/api/v1/pair", .POST, body: #"{"code":"\#(invited.object["code"] as? String ?? "")","clientName":"x"}"#)
        let token = try #require(paired.object["token"] as? String)
        let session = try await house.get("/api/v1/session", token).object
        #expect(session["person"] as? String == house.people[1] && session["scope"] as? String == "read")
        let page = try await house.run(.client(.invite(.init(scope: "write"))))
        let begun = try await house.api.send(
            "/api/v1/session", .POST, body: #"{"code":"\#(page.object["code"] as? String ?? "")"}"#)
        #expect(begun.status == 201)
        let link = try await house.run(.page).object["url"] as? String ?? ""
        let signed = try await house.api.send(
            "/api/v1/session", .POST, body: #"{"link":"\#(link.split(separator: "#").last ?? "")"}"#)
        #expect(signed.status == 201)
        let clients = try await house.api.door.clients.clients()
        #expect(clients.map(\.grant.scope) == [.owner, .write, .read])
        #expect(clients.map(\.grant.person) == [nil, nil, house.people[1]] && clients.last?.name == "kitchen")
        let audit = try await house.run(.client(.audit(limit: 100)))
        #expect(audit.contains("\"person\":\"\(house.people[1])\",\"scope\":\"read\""), "\(audit)")
        try await house.stop()
    }

    @Test(
        "an invitation for nobody, for an owner with a person, or for an unknown scope is refused and says why",
        arguments: [
            (InviteOperation(person: "nobody"), "no_such_user", Problem.ExitStatus.noInput),
            (InviteOperation(person: ""), "no_such_user", .noInput),
            (InviteOperation(person: "person-0", scope: "owner"), "owner_has_no_person", .usage),
            (InviteOperation(scope: "emperor"), "usage", .usage),
        ])
    func refused(_ operation: InviteOperation, _ code: String, _ status: Problem.ExitStatus) async throws {
        let house = try await Household(1)
        let problem = await #expect(throws: Problem.self) { _ = try await house.run(.client(.invite(operation))) }
        #expect(problem?.code == code && problem?.status == status)
        #expect(try InviteOperation().grant() == .owner && InviteOperation(person: "x").grant().scope == .read)
        try await house.stop()
    }

    @Test("one person's client pairs no meter of another's or for another, and does not see another's pairing")
    func pairing() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(0)
        _ = try await house.glucose(1)
        let (first, second) = (try await house.token(.write, 0), try await house.token(.write, 1))
        func pair(_ address: DeviceAddress, _ token: String) async throws -> APIBench.Answer {
            try await house.api.send(
                "/api/v1/pairings", .POST, token: token, body: #"{"address":"\#(address)"}"#)
        }
        #expect(try await pair(Household.meter(1), second).code == "not_the_current_user")
        #expect(try await pair(Household.meter(1), first).code == "other_person")
        let begun = try await pair(Household.meter(0), first)
        let id = begun.object["id"] as? String ?? ""
        #expect(begun.status == 202)
        #expect(try await house.get("/api/v1/pairings/" + id, first).status == 200)
        #expect(try await house.get("/api/v1/pairings/" + id, second).status == 404)
        #expect(try await house.get("/api/v1/pairings/" + id, try await house.token(.write, nil)).status == 200)
        _ = try await house.api.send("/api/v1/pairings/" + id, .DELETE, token: first)
        try await house.stop()
    }

    @Test("another's meter is not paired where its address is public, either")
    func publicAddress() async throws {
        let house = try await Household(2)
        let meter = DeviceAddress(bits: Household.meter(1).bits, kind: .public)
        try await house.api.gateway.store.notePairing(of: DeviceDescription(address: meter), as: .paired)
        let answer = try await house.api.send(
            "/api/v1/pairings", .POST, token: try await house.token(.write, 0), body: #"{"address":"\#(meter)"}"#)
        #expect(answer.code == "other_person")
        try await house.stop()
    }

    @Test("of a device that is shared a person sees that it is there, not what it measured of others")
    func shared() async throws {
        let house = try await Household(2)
        for _ in 0..<3 { _ = try await house.pressure(slot: 2) }
        _ = try await house.pressure(slot: 1)
        let answer = try await house.get("/api/v1/devices", try await house.token(.read, 0))
        let devices = answer.object["devices"] as? [[String: any Sendable]] ?? []
        let cuff = try #require(devices.first { $0["address"] as? String == Household.cuff.description })
        #expect(cuff["readings"] as? Int == 1 && cuff["last_sequence"] as? Int == nil)
        let contact = try #require(cuff["last_contact"] as? [String: any Sendable])
        #expect(contact["received"] as? Int == nil && contact["announced"] as? Int == nil)
        #expect(contact["complete"] as? Bool == true)
        // Meters that come and go are told of to those who use them.
        let events = try await house.api.events(token: try await house.token(.read, 0)) {
            house.api.hub.post("connection", to: .device(Household.meter(1)), .object(["whose": "his"]))
            house.api.hub.post("connection", to: .device(Household.cuff), .object(["whose": "both"]))
        } until: {
            $0.contains("both")
        }
        #expect(!events.contains("his"))
        try await house.stop()
    }

    @Test(
        "what one person denies keeps another's readings from no stream of the household's, as they come and from the store"
    )
    func denial() async throws {
        let house = try await Household(2)
        let his = try await house.key(1)
        try await house.api.gateway.store.setConsent(.bloodPressure, granted: false, of: his)
        let all = try await house.token(.read, nil)
        // His and nobody's come first: if one of them were sent, the stream would begin with it.
        let live = try await house.api.events(token: all) {
            for slot in [2, 3, 1] { _ = try await house.pressure(slot: slot) }
        } until: {
            $0.contains("event: reading")
        }
        let stored = try await house.api.events(token: all, last: "0") { $0.contains("event: reading") }
        for text in [live, stored] {
            #expect(text.contains("\"person\":\"\(house.people[0])\""), "\(text)")
            #expect(text.components(separatedBy: "event: reading").count == 2, "\(text)")
        }
        try await house.stop()
    }
}
