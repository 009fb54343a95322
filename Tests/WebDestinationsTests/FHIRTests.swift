import Crypto
import CryptoExtras
import DeliveryFixture
import Foundation
import HealthReadings
import LogLines
import Logging
import OutgoingHTTP
import ReadingFormats
import ScriptedServer
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import ReadingStore
@testable import WebDestinations

@Suite("FHIR")
struct FHIRTests {
    private static func destination(
        _ port: Int, _ fixture: Fixture, _ credential: FHIRDestination.Credential = .none, path: String = "/r4",
        patients: [String: String] = [Fixture.user: FHIRServer.patient], clock: SyncClock = .system,
        log: LogLines = LogLines()
    ) throws -> FHIRDestination {
        FHIRDestination(
            name: "hospital", server: try WebServer(url: "http://127.0.0.1:\(port)" + path), credential: credential,
            patients: patients.compactMapValues { PatientIdentifier(token: $0) },
            sender: .init(version: "0.2.0") { _ in DeviceFacts(manufacturer: "Roche", model: "Accu-Chek Guide") },
            store: fixture.store, limits: HTTPLimits(connecting: .seconds(5), call: .seconds(30)), clock: clock,
            logger: log.logger(from: .trace))
    }

    /// A worker beside a server and a fresh store.
    private static func with(
        _ fhir: FHIRServer, _ credential: FHIRDestination.Credential = .none,
        patients: [String: String] = [Fixture.user: FHIRServer.patient], clock: SyncClock = .system,
        batchLimit: Int = 100, _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with(timeZone: "Europe/Berlin") { fixture in
            try await ScriptedServer.with({ await fhir.answer($0) }) { server in
                let worker = fixture.worker(
                    try destination(server.port, fixture, credential, patients: patients, clock: clock), clock: clock,
                    batchLimit: batchLimit)
                try await body(worker, fixture, server)
            }
        }
    }

    // MARK: Delivery

    @Test("readings become Observations of the patient, in a transaction of conditional creates")
    func create() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(3, model: "accuchek_guide")
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble", value: { _ in 128 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
            let request = try #require(server.requests.first { $0.method == "POST" })
            #expect(request.path == "/r4" && request.headers["content-type"] == "application/fhir+json")
            #expect(request.headers["accept"] == "application/fhir+json" && request.headers["authorization"] == nil)
            #expect(server.requests.count == 2)
            #expect(
                fhir.shown.filter { !$0.hasSuffix("-") }.sorted() == [
                    "final 2023-11-14T22:14:20+01:00 81", "final 2023-11-14T22:15:20+01:00 82",
                    "final 2023-11-14T22:16:20+01:00 83",
                ])
            #expect(fhir.observations.count == 5)
            let patient = try #require(fhir.current.stored.first { $0.type == "Patient" })
            #expect(
                fhir.observations.allSatisfy { $0.resource["subject"]?["reference"]?.text == "Patient/\(patient.id)" })
            // Two meters and the gateway, each once.
            #expect(fhir.current.stored.count { $0.type == "Device" } == 3)
            #expect(fhir.current.stored.contains { $0.resource["manufacturer"]?.text == "Roche" })
        }
    }

    @Test("a repeat stores nothing, also where the answer was lost after the server had stored it")
    func repeats() async throws {
        let fhir = try FHIRServer()
        fhir.change { $0.losesAnswers = 1 }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(20)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            #expect(fhir.observations.count == 20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            let once = fhir.current.stored
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            #expect(fhir.current.stored == once && fhir.observations.count == 20)
            // A server that has lost them gets them again, as what they are.
            fhir.change { state in state.stored.removeAll { $0.type == "Observation" } }
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            #expect(fhir.observations.count == 20 && fhir.shown.allSatisfy { $0.hasPrefix("final") })
        }
    }

    @Test(
        "a reading that somebody changed at the server is put right, as an amendment; one that may not be looked for as well"
    )
    func amended() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            fhir.change { state in
                guard let place = state.stored.firstIndex(where: { $0.type == "Observation" }) else { return }
                var members = state.stored[place].resource.members
                members["valueQuantity"] = .object(["value": .number(999)])
                state.stored[place].resource = .object(members)
            }
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(
                fhir.shown.sorted() == [
                    "amended 2023-11-14T22:14:20+01:00 81", "final 2023-11-14T22:15:20+01:00 82",
                    "final 2023-11-14T22:16:20+01:00 83",
                ])
            fhir.change { $0.options.maySearch = false }
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(fhir.observations.count == 3 && fhir.shown.allSatisfy { $0.hasPrefix("amended") })
        }
    }

    @Test("who has moved to another zone keeps the times that were delivered")
    func movedPerson() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce().delivered == 2)
            let before = fhir.current.stored
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "America/New_York")
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            #expect(fhir.current.stored == before)
            // What was measured before the move is told by the zone of then, whenever it is delivered.
            try await fixture.read(1, from: 3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(fhir.shown.allSatisfy { $0.hasPrefix("final") && $0.contains("+01:00") }, "\(fhir.shown)")
        }
    }

    @Test("what was filed under another patient is moved when it is delivered again")
    func anotherPatient() async throws {
        let fhir = try FHIRServer()
        fhir.change { state in
            state.stored.append(
                .init(
                    type: "Patient", id: "another",
                    resource: .object([
                        "resourceType": .text("Patient"),
                        "identifier": .array([
                            .object(["system": .text("https://hospital.example/mrn"), "value": .text("4712")])
                        ]),
                    ])))
        }
        try await Fixture.with(timeZone: "Europe/Berlin") { fixture in
            try await ScriptedServer.with({ await fhir.answer($0) }) { server in
                func worker(_ patient: String) throws -> OutboxWorker {
                    fixture.worker(
                        try Self.destination(server.port, fixture, patients: [Fixture.user: patient]), clock: .system,
                        batchLimit: 100)
                }
                func subjects() -> Set<String> {
                    Set(fhir.observations.compactMap { $0.resource["subject"]?["reference"]?.text })
                }
                try await fixture.read(2)
                #expect(try await worker("https://hospital.example/mrn|4712").syncOnce().delivered == 2)
                #expect(subjects() == ["Patient/another"])
                let right = try worker(FHIRServer.patient)
                try await fixture.store.redeliver(to: "hospital")
                #expect(await right.syncOnce().delivered == 2)
                #expect(subjects() == ["Patient/p1"] && fhir.observations.count == 2)
                #expect(fhir.shown.allSatisfy { $0.hasPrefix("amended") })
            }
        }
    }

    @Test("a large backlog goes in bundles of about a hundred entries, and one that is too large is halved")
    func bundles() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir, batchLimit: 1000) { worker, fixture, server in
            try await fixture.read(200)
            #expect(await worker.syncOnce() == SyncReport(delivered: 200))
            #expect(server.requests.count == 3)
            for request in server.requests {
                let json = try #require(AnswerJSON(request.body))
                #expect((json["entry"]?.elements.count ?? 0) <= 100)
            }
            fhir.change { $0.options.bodyLimit = 30_000 }
            try await fixture.read(60, from: 300)
            #expect(await worker.syncOnce() == SyncReport(delivered: 60))
            #expect(fhir.observations.count == 260)
        }
    }

    // MARK: Refusals

    @Test(
        "one refused reading blocks none of the others, and is set aside in the server's words",
        arguments: [false, true])
    func refused(isLenient: Bool) async throws {
        let fhir = try FHIRServer()
        fhir.change {
            $0.options.refuses = [90]
            $0.options.isLenient = isLenient
        }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 19, refused: 1))
            #expect(fhir.observations.count == 19)
            let refused = try await fixture.store.refused(at: worker.place())
            #expect(refused.count == 1 && refused.first?.serverSaid.contains("the value is not plausible") == true)
        }
    }

    @Test("a server that hides its patients refuses a reading: that is no missing patient")
    func hiddenPatients() async throws {
        let fhir = try FHIRServer()
        fhir.change {
            $0.options.hidesPatients = true
            $0.options.refuses = [81]
        }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(8)
            #expect(await worker.syncOnce() == SyncReport(delivered: 7, refused: 1))
            #expect(fhir.observations.count == 7)
        }
    }

    @Test("what the server cannot say now is asked again before anything is replaced")
    func searchFails() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.store.redeliver(to: "hospital")
            fhir.change { $0.next = [.json(503, "{}")] }
            #expect(await worker.syncOnce().failure?.code == "server_error")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(fhir.observations.allSatisfy { $0.version == 1 })
        }
    }

    @Test("a reading that is refused alone waits, unless the server names it")
    func refusedAlone() async throws {
        let fhir = try FHIRServer()
        fhir.change { $0.options.refuses = [81] }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(1)
            let report = await worker.syncOnce()
            #expect(report.refused == 0 && report.failure?.code == "server_refuses_all")
            #expect(report.failure?.serverSaid == "the value is not plausible")
            fhir.change { $0.options.namesPlaces = true }
            #expect(await worker.syncOnce() == SyncReport(refused: 1))
        }
    }

    @Test("a reading that the server has twice is refused and says so; the others go", arguments: [false, true])
    func duplicates(isLenient: Bool) async throws {
        let fhir = try FHIRServer()
        fhir.change { $0.losesAnswers = 1 }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(5)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            // Two gateways at once: the server checked both before it stored either.
            fhir.change { state in
                guard let third = state.stored.first(where: { $0.resource["valueQuantity"]?["value"] == .number(83) })
                else { return }
                state.stored.append(.init(type: "Observation", id: "other", resource: third.resource))
                state.options.isLenient = isLenient
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 4, refused: 1))
            let words = try await fixture.store.refused(at: worker.place()).first?.serverSaid
            #expect(words?.contains("several Observations with the identifier of this reading") == true)
            #expect(fhir.observations.count == 6)
            // Alone, it is known as well.
            try await fixture.store.retryRefused()
            #expect(await worker.syncOnce() == SyncReport(refused: 1))
            fhir.change { state in state.stored.removeAll { $0.id == "other" } }
            try await fixture.store.retryRefused()
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test("a meter that the server has twice pauses its readings and names the reason")
    func ambiguousDevice() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            fhir.change { state in
                guard
                    let meter = state.stored.first(where: {
                        $0.resource["modelNumber"] != nil || $0.resource["_modelNumber"] != nil
                    })
                else { return }
                state.stored.append(.init(type: "Device", id: "other", resource: meter.resource))
            }
            try await fixture.read(4, from: 2)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "ambiguous_device" && report.failure?.needsPerson == true)
            #expect(report.refused == 0 && fhir.observations.count == 1)
        }
    }

    @Test("readings of a person without a patient are held; so are those of one whom the server has not or twice")
    func noPatient() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir, patients: [:]) { worker, fixture, server in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.held.map(\.hold) == [.noPatient] && report.delivered == 0 && report.failure == nil)
            #expect(server.requests.isEmpty)
        }
        for count in [0, 2] {
            let fhir = try FHIRServer(patients: count)
            try await Self.with(fhir) { worker, fixture, server in
                try await fixture.read(3)
                let report = await worker.syncOnce()
                #expect(report.held.map(\.hold) == [.noPatient] && report.refused == 0 && report.failure == nil)
                #expect(report.held.first?.reason?.contains(count == 0 ? "no Patient" : "2 Patients") == true)
                #expect(report.held.first?.reason?.contains("47") == false)
                #expect(fhir.observations.isEmpty)
            }
        }
    }

    @Test(
        "what answers in the server's place, or fails, acknowledges nothing",
        arguments: [
            (ScriptedAnswer.other(200, "<html>Sign in to the hotel</html>", type: "text/html"), "not_json"),
            (.other(404, "<!DOCTYPE html><p>Not Found", type: "text/html"), "not_json"),
            (.json(404, "{}"), "not_found"), (.json(200, "{}"), "unexpected_answer"),
            (.json(200, ""), "unexpected_answer"),
            (.json(200, #"{"resourceType":"Bundle","type":"transaction-response","entry":[]}"#), "unexpected_answer"),
            (.json(408, "{}"), "timeout"), (.json(409, "{}"), "conflict"),
            (.json(429, "{}", headers: ["retry-after": "60"]), "rate_limit_exceeded"),
            (.json(500, "{}"), "server_error"),
            (.json(503, "{}", headers: ["retry-after": "60"]), "server_error"), (.json(415, "{}"), "refused"),
            (.json(307, "", headers: ["location": "https://fhir.example/r4"]), "redirected"),
            (.json(403, #"{"resourceType":"OperationOutcome","issue":[{"diagnostics":"no consent"}]}"#), "forbidden"),
            (.cut, "no_connection"), (.half(200, "{}"), "no_connection"),
        ])
    func faults(answer: ScriptedAnswer, code: String) async throws {
        let fhir = try FHIRServer()
        fhir.change { $0.next = [answer] }
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == code && report.delivered == 0 && report.refused == 0)
            #expect(server.requests.count == 1)
            if case .json(_, _, let headers) = answer, headers["retry-after"] != nil {
                #expect(report.failure?.retryAfter == .seconds(60))
            }
            #expect(report.failure?.needsPerson == (code == "forbidden"))
            if code == "forbidden" { #expect(report.failure?.serverSaid == "no consent") }
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
        }
    }

    // MARK: Retraction

    @Test(
        "what is taken back stays without its value, as entered in error; what the server does not have is not made there"
    )
    func retraction() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(5)
            #expect(await worker.syncOnce().delivered == 5)
            try await fixture.read(1, from: 3, isFailed: true)
            let report = await worker.syncOnce()
            #expect(report.retracted == 1 && report.failure == nil)
            let withdrawn = try #require(fhir.observations.first { $0.version == 2 })
            #expect(withdrawn.resource["status"]?.text == "entered-in-error")
            #expect(withdrawn.resource["dataAbsentReason"] != nil && withdrawn.resource["valueQuantity"] == nil)
            let text = withdrawn.resource.document.text
            #expect(!text.contains("83,") && !text.contains("mg/dL") && !text.contains("<div>"))
            #expect(withdrawn.resource["subject"] != nil && withdrawn.resource["device"] != nil)
            #expect(fhir.observations.count == 5 && fhir.shown.count { $0.hasPrefix("final") } == 4)
            // It counts again: it comes back.
            try await fixture.read(1, from: 3, isCorrected: true)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(fhir.shown.contains("amended 2023-11-14T22:16:20+01:00 83"))
            // The server has lost another: there is nothing to take back.
            fhir.change { state in state.stored.removeAll { $0.type == "Observation" } }
            try await fixture.read(1, from: 4, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            #expect(fhir.observations.isEmpty)
        }
    }

    @Test(
        "readings of a person who was erased and is there again replace what was withdrawn, also at a server that finds nothing",
        arguments: [true, false])
    func erasedAndBack(maySearch: Bool) async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.store.eraseUser(try await fixture.person.key, retracts: true)
            #expect(await worker.syncOnce().retracted == 3)
            #expect(fhir.shown.allSatisfy { $0.hasPrefix("entered-in-error") })
            fhir.change { $0.options.maySearch = maySearch }
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "Europe/Berlin")
            try await fixture.read(5)
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
            #expect(
                fhir.shown.sorted() == [
                    "amended 2023-11-14T22:14:20+01:00 81", "amended 2023-11-14T22:15:20+01:00 82",
                    "amended 2023-11-14T22:16:20+01:00 83", "final 2023-11-14T22:17:20+01:00 84",
                    "final 2023-11-14T22:18:20+01:00 85",
                ])
            #expect(fhir.observations.allSatisfy { $0.resource["dataAbsentReason"] == nil })
        }
    }

    @Test("a recording has the period of its samples; that is no amendment, and stays when it is taken back")
    func recording() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(1, kind: .heartRate)
            #expect(await worker.syncOnce().delivered == 1)
            let period = AnswerJSON.object([
                "start": .text("2023-11-14T22:14:20+01:00"), "end": .text("2023-11-14T22:15:19+01:00"),
            ])
            let stored = try #require(fhir.observations.first)
            #expect(stored.resource["effectivePeriod"] == period && stored.resource["effectiveDateTime"] == nil)
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(fhir.observations.first?.version == stored.version)
            // What was sent by an earlier version has the beginning alone.
            fhir.change { state in
                guard let place = state.stored.firstIndex(where: { $0.type == "Observation" }) else { return }
                var members = state.stored[place].resource.members
                members["effectivePeriod"] = nil
                members["effectiveDateTime"] = .text("2023-11-14T22:14:20+01:00")
                state.stored[place].resource = .object(members)
            }
            try await fixture.store.redeliver(to: "hospital")
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            let amended = try #require(fhir.observations.first)
            #expect(amended.resource["status"]?.text == "amended" && amended.resource["effectivePeriod"] == period)
            try await fixture.read(1, kind: .heartRate, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            let withdrawn = try #require(fhir.observations.first)
            #expect(withdrawn.resource["status"]?.text == "entered-in-error")
            #expect(withdrawn.resource["effectivePeriod"] == period)
        }
    }

    @Test("a blood pressure that is taken back keeps the reason in place of each pressure")
    func retractedPressure() async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(1, kind: .bloodPressure, provider: "omron_ble", value: { _ in 128 })
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.read(1, kind: .bloodPressure, provider: "omron_ble", isFailed: true, value: { _ in 128 })
            #expect(await worker.syncOnce().retracted == 1)
            let withdrawn = try #require(fhir.observations.first)
            let components = try #require(withdrawn.resource["component"]?.elements)
            #expect(
                components.count == 3 && components.allSatisfy { $0["dataAbsentReason"] != nil && $0["code"] != nil })
            #expect(components.allSatisfy { $0["valueQuantity"] == nil })
            #expect(withdrawn.resource["dataAbsentReason"] == nil)
        }
    }

    @Test(
        "without the permission to update, taking back waits for a person and readings go on", arguments: [true, false])
    func retractionWithoutPermission(maySearch: Bool) async throws {
        let fhir = try FHIRServer()
        try await Self.with(fhir) { worker, fixture, server in
            try await fixture.read(5)
            #expect(await worker.syncOnce().delivered == 5)
            fhir.change {
                $0.options.mayUpdate = false
                $0.options.maySearch = maySearch
            }
            try await fixture.read(1, from: 3, isFailed: true)
            try await fixture.read(1, from: 9)
            let report = await worker.syncOnce()
            #expect(report.delivered == 1 && report.retracted == 0)
            #expect(report.failure?.code == "forbidden" && report.failure?.needsPerson == true)
            #expect(report.failure?.message.contains("and to update them") == true)
        }
    }

    @Test("an Observation that may not be updated keeps no other from being taken back, and no moved reading waiting")
    func oneRefusedRetraction() async throws {
        let fhir = try FHIRServer()
        fhir.change { state in
            state.stored.append(
                .init(
                    type: "Patient", id: "another",
                    resource: .object([
                        "resourceType": .text("Patient"),
                        "identifier": .array([
                            .object(["system": .text("https://hospital.example/mrn"), "value": .text("4712")])
                        ]),
                    ])))
        }
        let patients = [Fixture.user: FHIRServer.patient, "brown_bear": "https://hospital.example/mrn|4712"]
        try await Self.with(fhir, patients: patients) { worker, fixture, server in
            let store = fixture.store
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            let first = try #require(
                fhir.observations.first { $0.resource["valueQuantity"]?["value"] == .number(81) })
            fhir.change { $0.options.locked = [first.id] }
            try await fixture.read(2, from: 1, isFailed: true)
            try await store.setPeople([
                StorePerson(clientUserID: "brown_bear", timeZone: "Europe/Berlin", shares: [])
            ])
            let person = try #require(try await store.user("brown_bear")).key
            let third = try #require(
                try await store.query(ReadingQuery()).readings.first { $0.record.sequence == 3 })
            try await store.moveReadings(.readings([third.id]), to: person)
            let report = await worker.syncOnce()
            #expect(report.retracted == 2 && report.delivered == 1, "\(report)")
            #expect(report.failure?.code == "forbidden")
            #expect(
                fhir.shown.sorted() == [
                    "amended 2023-11-14T22:16:20+01:00 83", "entered-in-error 2023-11-14T22:15:20+01:00 -",
                    "final 2023-11-14T22:14:20+01:00 81",
                ])
            let moved = fhir.observations.first { $0.resource["status"]?.text == "amended" }
            #expect(moved?.resource["subject"]?["reference"]?.text == "Patient/another")
            let rest = try await store.retractions(at: worker.place(), limit: 10)
            #expect(rest.map(\.attempts) == [1])
            // What comes later is asked for first, and the first again behind it.
            try await store.moveReadings(.readings([third.id]), to: fixture.person.key)
            let later = await worker.syncOnce()
            #expect(later.retracted == 1 && later.delivered == 1 && later.failure?.code == "forbidden", "\(later)")
            fhir.change { $0.options.locked = [] }
            let last = await worker.syncOnce()
            #expect(last.retracted == 1 && last.failure == nil, "\(last)")
        }
    }

    // MARK: Credentials

    @Test("a refused token pauses delivery: one request a pass, told once, then ever longer waits")
    func wrongToken() async throws {
        let (clock, fhir) = (ManualClock(), try FHIRServer())
        fhir.change { $0.options.tokens = ["another token of the server"] }
        try await Self.with(fhir, .token("t0p-secret-token"), clock: clock.syncClock) { worker, fixture, server in
            try await fixture.read(5)
            let events = worker.events()
            let running = Task { try await worker.run() }
            for round in 1...3 {
                try await clock.waitForSleeps(round)
                clock.advance(by: clock.slept.last ?? .zero)
            }
            try await clock.waitForSleeps(4)
            running.cancel()
            try await running.value
            let paused = await events.reduce(into: 0) { if case .paused = $1 { $0 += 1 } }
            #expect(paused == 1 && server.requests.count == 4)
            #expect(clock.slept.prefix(4).map { $0.components.seconds / 60 } == [15, 30, 60, 120])
            let failure = try #require(await worker.status.failure)
            #expect(failure.code == "authentication_failed" && failure.needsPerson)
            #expect(failure.serverSaid == "the token is unknown or has expired")
            fhir.change { $0.options.tokens = ["t0p-secret-token"] }
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
        }
    }

    private static let elliptic = P384.Signing.PrivateKey()

    private static func service(
        _ port: Int, pem: String = elliptic.pemRepresentation, id: String? = "key-1", isDiscovered: Bool = false
    ) throws -> FHIRDestination.Credential {
        .service(
            client: "gateway", key: try FHIRClientKey(pem: pem, id: id),
            endpoint: isDiscovered ? nil : try WebServer(url: "http://127.0.0.1:\(port)/token"))
    }

    /// A worker whose server grants tokens to the owner of a key.
    private static func withService(
        _ fhir: FHIRServer, key: FHIRServer.Client.Key = .elliptic(elliptic.publicKey),
        pem: String = elliptic.pemRepresentation, isDiscovered: Bool = false, clock: SyncClock = .system,
        log: LogLines = LogLines(), _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await fhir.answer($0) }) { server in
                fhir.change {
                    $0.options.client = FHIRServer.Client(
                        key: key, keyID: "key-1", endpoint: "http://127.0.0.1:\(server.port)/token")
                }
                let destination = try destination(
                    server.port, fixture, service(server.port, pem: pem, isDiscovered: isDiscovered), clock: clock,
                    log: log)
                try await body(fixture.worker(destination, clock: clock, batchLimit: 5), fixture, server)
            }
        }
    }

    @Test(
        "a client proves who it is with ES384 or RS384, and uses a token for as long as it lasts",
        arguments: [false, true])
    func service(isRSA: Bool) async throws {
        let fhir = try FHIRServer()
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        try await Self.withService(
            fhir, key: isRSA ? .rsa(rsa.publicKey) : .elliptic(Self.elliptic.publicKey),
            pem: isRSA ? rsa.pemRepresentation : Self.elliptic.pemRepresentation, isDiscovered: isRSA
        ) { worker, fixture, server in
            try await fixture.read(20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            #expect(fhir.current.complaints == [] && fhir.current.issued.count == 1)
            #expect(server.requests.count == (isRSA ? 6 : 5))
        }
    }

    @Test("a token is renewed before it expires, and once where the server ended it earlier")
    func expiry() async throws {
        let clock = ManualClock()
        let fhir = try FHIRServer(now: { clock.syncClock.now().seconds })
        try await Self.withService(fhir, clock: clock.syncClock) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce().delivered == 2)
            clock.advance(by: .seconds(230))
            try await fixture.read(1, from: 10)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(fhir.current.issued.count == 1)
            clock.advance(by: .seconds(20))
            try await fixture.read(1, from: 20)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(fhir.current.issued.count == 2 && fhir.current.usedAssertions.count == 2)
            #expect(!server.requests.contains { $0.path == "/r4" && $0.headers["authorization"] == nil })
            fhir.change { $0.options.requestsOfToken = 1 }
            try await fixture.read(3, from: 30)
            #expect(await worker.syncOnce().delivered == 3)
            #expect(fhir.current.issued.count == 3 && fhir.current.complaints == [])
        }
    }

    @Test("a key that the server does not know pauses delivery, and tokens that are never accepted end in one retry")
    func wrongKey() async throws {
        let fhir = try FHIRServer()
        try await Self.withService(fhir, key: .elliptic(P384.Signing.PrivateKey().publicKey)) {
            worker, fixture, server in
            try await fixture.read(2)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "authentication_failed" && report.failure?.needsPerson == true)
            #expect(report.failure?.serverSaid == "invalid_client: the signature is not the client's")
            #expect(server.requests.count == 1)
        }
        let other = try FHIRServer()
        other.change { $0.options.requestsOfToken = 0 }
        try await Self.withService(other) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce().failure?.code == "authentication_failed")
            #expect(server.requests.map(\.path) == ["/token", "/r4", "/token", "/r4"])
        }
    }

    @Test(
        "an endpoint that fails grants nothing, and says what happened",
        arguments: [
            (ScriptedAnswer.json(200, #"{"access_token":"a\nb","token_type":"bearer"}"#), "unexpected_answer"),
            (.json(200, #"{"access_token":"abc","token_type":"mac"}"#), "unexpected_answer"),
            (.other(200, "<html>", type: "text/html"), "not_json"), (.json(503, "{}"), "server_error"),
            (.json(400, #"{"error":"invalid_scope"}"#), "authentication_failed"), (.cut, "no_connection"),
        ])
    func endpointFaults(answer: ScriptedAnswer, code: String) async throws {
        let fhir = try FHIRServer()
        fhir.change { $0.next = [answer] }
        try await Self.withService(fhir) { worker, fixture, server in
            try await fixture.read(2)
            #expect(await worker.syncOnce().failure?.code == code)
            #expect(server.requests.count == 1)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
        }
    }

    @Test(
        "a server that names a token endpoint on another host gets no proof sent there before the settings name it",
        arguments: ["http://localhost", "https://auth.example.org", "http://192.168.1.9", "http://127.0.0.2"])
    func foreignEndpoint(origin: String) async throws {
        let fhir = try FHIRServer()
        try await Self.withService(fhir, isDiscovered: true) { worker, fixture, server in
            let found = "\(origin):\(server.port)/token"
            fhir.change { $0.options.client?.endpoint = found }
            try await fixture.read(2)
            let failure = try #require(await worker.syncOnce().failure)
            #expect(failure.code == "no_token_endpoint" && failure.needsPerson && failure.scope == .destination)
            #expect(failure.message.contains("`token_url`"), "\(failure.message)")
            let host = String(try #require(origin.split(separator: "/").last))
            #expect(failure.message.contains(host), "\(failure.message)")
            #expect(server.requests.map(\.path) == ["/r4/.well-known/smart-configuration"])
            #expect(fhir.current.usedAssertions.isEmpty && fhir.current.complaints == [])
            let findings = try await Self.destination(
                server.port, fixture, Self.service(server.port, isDiscovered: true)
            ).test()
            #expect(findings.map(\.isGood) == [true, nil, false, nil])
            // The server's own host will do.
            fhir.change { $0.options.client?.endpoint = "http://127.0.0.1:\(server.port)/token" }
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
        }
    }

    @Test("an endpoint without TLS is not used where the server has TLS, not even on this machine")
    func endpointWithoutTLS() async throws {
        let fhir = try FHIRServer()
        try await Fixture.with { fixture in
            let authority = try TestAuthority(in: fixture.folder)
            let tls = try authority.context()
            try await ScriptedServer.with({ await fhir.answer($0) }, tls: tls) { server in
                for (scheme, isTaken) in [("http", false), ("https", true)] {
                    fhir.change {
                        $0.options.client = FHIRServer.Client(
                            key: .elliptic(Self.elliptic.publicKey), keyID: "key-1",
                            endpoint: "\(scheme)://127.0.0.1:\(server.port)/token")
                    }
                    let destination = FHIRDestination(
                        name: "hospital",
                        server: try WebServer(url: server.baseURL + "/r4", authorities: authority.path),
                        credential: try Self.service(server.port, isDiscovered: true), patients: [:],
                        sender: .init(version: "0.2.0"), store: fixture.store,
                        logger: LogLines().logger(from: .trace))
                    let findings = await destination.test()
                    #expect(findings.map(\.isGood) == [true, true, isTaken, nil], "\(findings)")
                    #expect(findings[2].found.contains("without TLS") == !isTaken)
                }
                #expect(server.requests.count { $0.path == "/token" } == 1)
            }
        }
    }

    @Test("keys that cannot be used are refused, with what was expected")
    func keys() throws {
        let cases = [
            (P256.Signing.PrivateKey().pemRepresentation, "expected a P-384 key"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "without a passphrase"), ("nothing", "a private key in PEM"),
        ]
        for (pem, words) in cases {
            do throws(FHIRClientKey.Malformed) {
                _ = try FHIRClientKey(pem: pem, id: nil)
                Issue.record("\(words): taken")
            } catch {
                #expect(error.reason.contains(words))
            }
        }
    }

    private static let openssl = "/usr/bin/openssl"

    private static func run(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: openssl)
        process.arguments = arguments
        (process.standardOutput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "openssl \(arguments)")
    }

    @Test(
        "keys as openssl makes them are read, and openssl verifies what they sign",
        .enabled(if: FileManager.default.isExecutableFile(atPath: openssl), "openssl is not installed"),
        arguments: [
            ["ecparam", "-name", "secp384r1", "-genkey", "-noout"], ["genrsa"], ["genrsa", "-traditional"],
            ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
        ])
    func opensslKeys(arguments: [String]) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = Dictionary(
            uniqueKeysWithValues: ["key", "public", "text", "signature"].map { ($0, folder.appending(path: $0).path) })
        func path(_ name: String) throws -> String { try #require(files[name]) }
        try Self.run(arguments + ["-out", path("key")])
        try Self.run(["pkey", "-in", path("key"), "-pubout", "-out", path("public")])
        let key = try FHIRClientKey(pem: String(contentsOfFile: path("key"), encoding: .utf8), id: nil)
        let parts = try key.assertion(client: "gateway", endpoint: "https://login.example", at: .systemClock).value
            .split(separator: ".")
        try Data(parts.prefix(2).joined(separator: ".").utf8).write(to: URL(fileURLWithPath: path("text")))
        let base = parts[2].replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - base.count % 4) % 4)
        var signature = try #require(Data(base64Encoded: base + padding))
        if key.algorithm == "ES384" {
            // JWT has the two numbers, openssl wants them in DER.
            signature = try P384.Signing.ECDSASignature(rawRepresentation: signature).derRepresentation
        }
        try signature.write(to: URL(fileURLWithPath: path("signature")))
        try Self.run([
            "dgst", "-sha384", "-verify", path("public"), "-signature", path("signature"), path("text"),
        ])
    }

    // MARK: Test

    @Test("the test proves version, token and patient, and stores nothing")
    func test() async throws {
        let fhir = try FHIRServer()
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await fhir.answer($0) }) { server in
                let before = fhir.current.stored
                func findings(
                    _ credential: FHIRDestination.Credential = .none, path: String = "/r4"
                ) async throws -> [Finding] {
                    try await Self.destination(server.port, fixture, credential, path: path).test()
                }
                let open = try await findings()
                #expect(open.map(\.isGood) == [true, nil, true, nil])
                #expect(open[0].found.contains("FHIR 4.0.1") && open[2].found.contains("none are set"))
                #expect(try await findings(path: "/other").map(\.isGood) == [false, nil, nil, nil])
                fhir.change { $0.options.tokens = ["right-token"] }
                #expect(try await findings(.token("right-token")).map(\.isGood) == [true, nil, true, nil])
                #expect(try await findings(.token("wrong-token")).map(\.isGood) == [true, nil, false, nil])
                fhir.change { $0.options.maySearch = false }
                #expect(try await findings(.token("right-token")).last?.found.contains("may not search") == true)
                fhir.change { state in
                    state.options.maySearch = true
                    state.options.client = .init(
                        key: .elliptic(Self.elliptic.publicKey), keyID: "key-1",
                        endpoint: "http://127.0.0.1:\(server.port)/token")
                }
                #expect(try await findings(Self.service(server.port)).map(\.isGood) == [true, nil, true, nil])
                fhir.change { $0.options.scope = "system/Observation.rs system/Device.crs" }
                #expect(try await findings(Self.service(server.port)).map(\.isGood) == [true, nil, true, false])
                fhir.change { $0.options.scope = "system/*.write" }
                #expect(try await findings(Self.service(server.port)).last?.isGood == nil)
                #expect(fhir.current.stored == before)
                fhir.change { state in state.stored.removeAll { $0.type == "Patient" } }
                let nobody = try await findings(.token("right-token"))
                #expect(nobody.last?.isGood == false && nobody.last?.found.contains("no Patient") == true)
                fhir.change { $0.options.conditionalCreate = false }
                #expect(
                    try await findings(.token("right-token")).first?.found.contains("no conditional creates") == true)
                fhir.change { $0.options.version = "5.0.0" }
                let newer = try await findings(.token("right-token"))
                #expect(newer.map(\.isGood) == [false, nil, nil, nil])
                #expect(newer.first?.found.contains("expected FHIR 4.0 (R4), found FHIR 5.0.0") == true)
            }
        }
    }

    @Test("scopes of SMART 1 and 2 that let Observations be created")
    func scopes() {
        for scope in [
            "system/Observation.c", "system/*.cruds", "system/*.write", "x system/Observation.crus?a=b", "system/*.*",
        ] {
            #expect(FHIRDestination.mayCreate(scope), "\(scope)")
        }
        for scope in [
            "", "system/Observation.rs", "user/Observation.c", "system/Device.c", "system/Observation.read", "system/",
            "system/?", "system/??", "?/?", "/", "system/Observation.?c",
        ] {
            #expect(!FHIRDestination.mayCreate(scope), "\(scope)")
        }
    }

    @Test("neither a log, a message nor a description has a token, an assertion or a key")
    func secrets() async throws {
        let log = LogLines()
        let fhir = try FHIRServer()
        try await Self.withService(fhir, log: log) { worker, fixture, server in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            let token = try #require(fhir.current.issued.keys.first)
            fhir.change {
                $0.next = [
                    .json(500, #"{"message":"you sent \#(token)"}"#), .json(401, #"{"message":"and \#(token)"}"#),
                ]
            }
            try await fixture.read(1, from: 5)
            let first = await worker.syncOnce()
            let second = await worker.syncOnce()
            var text = "\(worker.destination) \(first) \(second) \(await worker.destination.test()) \(log.text)"
            dump(worker.destination, to: &text)
            #expect(first.failure?.serverSaid == "you sent ****")
            #expect(!text.contains(token) && !text.contains("PRIVATE KEY") && !text.contains("eyJ"))
        }
    }

    // MARK: Death

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// A server and a gateway in one process. The server keeps what it has stored in a file.
        private static func work(_ folder: String, unwrittenLimit: Int? = nil) async throws -> FHIRServer {
            let fixture = try await Fixture.open(folder)
            let fhir = try FHIRServer(file: folder + "/server.json")
            try await ScriptedServer.with({ await fhir.answer($0) }) { server in
                try await fixture.read(20)
                let worker = fixture.worker(
                    try destination(server.port, fixture), clock: .system, batchLimit: 5,
                    unwrittenLimit: unwrittenLimit)
                #expect(await worker.syncOnce().failure == nil)
                try await fixture.read(1, from: 3, isFailed: true)
                #expect(await worker.syncOnce().failure == nil)
                #expect(try await fixture.store.groupsWaiting(at: worker.place()).isEmpty)
                #expect(try await fixture.store.retractionCount(at: worker.place()) == 0)
            }
            try fixture.store.close()
            return fhir
        }

        @Test(
            "death at any moment of a delivery leaves each Observation at the server exactly once",
            arguments: [
                "fhir.before", "fhir.after", "fhir.before:3", "fhir.after:3", "acknowledge.before-commit:2",
                "acknowledge.after-commit:4", "fhir.withdraw", "retract.answered",
            ])
        func death(point: String) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "killed-\(UUID().uuidString)").path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [folder = folder as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                _ = try await FHIRTests.work(folder, unwrittenLimit: Fixture.unwrittenLimit(dyingAt: point))
            }
            let fhir = try await Self.work(folder)
            #expect(fhir.observations.count == 20)
            let values = fhir.shown.filter { $0.hasPrefix("final") }.compactMap { $0.split(separator: " ").last }
            #expect(values.sorted() == (1...20).filter { $0 != 3 }.map { "\(80 + $0)"[...] }.sorted())
            #expect(fhir.shown.count { $0.hasPrefix("entered-in-error") } == 1)
            #expect(fhir.current.stored.count { $0.type == "Device" } == 2)
        }
    #endif
}
