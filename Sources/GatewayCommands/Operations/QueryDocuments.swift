import GatewaySettings
import HealthDevices
import HealthFigures
import HealthReadings
import ReadingFormats
import ReadingStore

/// Writes a page of readings as documents of other people's programs, and counts what they cannot say.
struct QueryDocuments {
    /// A document, and what is to be told of it.
    struct Written {
        /// The document, an array with an element on each line or a bundle with an entry on each line.
        var lines: [String]
        /// For standard error.
        var notes: [String]
    }

    /// What a format could not say, by reason.
    private struct Tally {
        private var readings: [FormatOmission.Reason: Int] = [:]
        private var parts: [FormatOmission.Reason: Int] = [:]

        mutating func count(_ lost: FormatOmission) { readings[lost.reason, default: 0] += 1 }
        mutating func count(_ omissions: [FormatOmission]) {
            for omission in omissions { parts[omission.reason, default: 0] += 1 }
        }

        func notes(_ format: QueryOperation.Format) -> [String] {
            [
                Self.list(readings).map { "\(format.rawValue): readings left out: \($0)" },
                Self.list(parts).map { "\(format.rawValue): parts of readings left out or changed: \($0)" },
            ].compactMap(\.self)
        }

        private static func list(_ counts: [FormatOmission.Reason: Int]) -> String? {
            let named = FormatOmission.Reason.allCases.compactMap { reason in
                counts[reason].map { "\(reason.rawValue) \($0)" }
            }
            return named.isEmpty ? nil : named.joined(separator: ", ")
        }
    }

    private let gateway: Gateway
    private let page: ReadingPage
    private let query: ReadingQuery

    init(_ gateway: Gateway, _ page: ReadingPage, of query: ReadingQuery) {
        (self.gateway, self.page, self.query) = (gateway, page, query)
    }

    func written(as format: QueryOperation.Format) async throws -> Written {
        let people = try await People(gateway)
        return switch format {
        case .fhir: bundle(people)
        case .libreview: try libreView(people)
        case .openMHealth:
            array(format) { reading, tally throws(FormatOmission) in
                let written = try OpenMHealth.dataPoints(of: reading, in: people.context(of: reading))
                tally.count(written.omissions)
                return written.document
            }
        case .rook:
            array(format) { reading, tally throws(FormatOmission) in
                let written = try RookEvents.documents(
                    of: reading, in: people.context(of: reading), clientUUID: people.clientUUID)
                tally.count(written.omissions)
                return written.document
            }
        default: days(people)
        }
    }

    private func libreView(_ people: People) throws(Problem) -> Written {
        // The table names one person, and nothing in it tells two apart.
        let owners = Set(page.readings.lazy.filter(LibreViewTable.hasPlace).map { $0.person ?? "" })
        guard owners.count <= 1 else {
            throw Problem.usage(
                "a table of LibreView's is one person's, and these readings are of \(owners.count)",
                hint: "say whose with --person")
        }
        let table = LibreViewTable(
            page.readings, person: owners.first ?? "", now: .systemClock,
            zone: { reading in reading.time.instant.map { people.zones(of: reading).zone(at: $0) } },
            model: { [catalogue = gateway.catalogue] device in
                device.model.flatMap { catalogue[$0] }.map { "\($0.brand) \($0.name)" } ?? device.name ?? device.model
            })
        var notes: [String] = []
        if table.leftOut > 0 {
            notes.append("libreview: readings left out: \(table.leftOut) that are no glucose with a number and a time")
        }
        if table.ambiguous > 0 {
            notes.append(
                "libreview: readings of an hour that a change of clocks repeats: \(table.ambiguous), whose local times don't say "
                    + "which of the two it is")
        }
        return Written(lines: table.lines, notes: notes)
    }

    private func array(
        _ format: QueryOperation.Format,
        _ documents: (Reading, inout Tally) throws(FormatOmission) -> [JSONValue]
    ) -> Written {
        var (tally, all): (Tally, [JSONValue]) = (Tally(), [])
        for reading in page.readings {
            do throws(FormatOmission) { all += try documents(reading, &tally) } catch { tally.count(error) }
        }
        return Written(lines: Self.lines("[", all, "]"), notes: tally.notes(format))
    }

    private func bundle(_ people: People) -> Written {
        var (tally, bundle) = (Tally(), FHIRBundle(.collection))
        for reading in page.readings {
            do throws(FormatOmission) {
                tally.count(try bundle.add(reading, in: people.context(of: reading)))
            } catch {
                tally.count(error)
            }
        }
        let notes = tally.notes(.fhir)
        guard case .object(var members) = bundle.document, let place = members.firstIndex(where: { $0.key == "entry" }),
            case .array(let entries) = members.remove(at: place).value
        else { return Written(lines: [bundle.document.text], notes: notes) }
        // A bundle of thousands of readings has a line for each entry rather than one that nobody can pass on.
        let head = JSONValue.object(members).text.dropLast() + #","entry":["#
        return Written(lines: Self.lines(String(head), entries, "]}"), notes: notes)
    }

    private static func lines(_ head: String, _ elements: [JSONValue], _ tail: String) -> [String] {
        guard let last = elements.last else { return [head + tail] }
        return [head] + elements.dropLast().map { $0.text + "," } + [last.text, tail]
    }

    // MARK: Days

    private struct DayKey: Hashable {
        var person: String
        var date: String
    }

    private func days(_ people: People) -> Written {
        var tally = Tally()
        var (bodies, order): ([DayKey: TerraBody], [DayKey]) = ([:], [])
        for reading in page.readings {
            guard let time = reading.time.instant else {
                tally.count(FormatOmission(reading.excluded == nil ? .noTime : .excluded))
                continue
            }
            let context = people.context(of: reading)
            let day = people.zones(of: reading).day(of: time)
            let key = DayKey(person: context.person, date: day.date)
            var body = bodies[key] ?? TerraBody(day, in: context)
            do throws(FormatOmission) {
                tally.count(try body.add(reading, device: context.device))
            } catch {
                tally.count(error)
                continue
            }
            if bodies.updateValue(body, forKey: key) == nil { order.append(key) }
        }
        var notes = tally.notes(.terra)
        let cut = order.filter { bodies[$0].map { isCut($0.day) } ?? false }
        if !cut.isEmpty {
            notes.append(
                "terra: not whole, because the page or --from and --to cut them: "
                    + cut.map { "\($0.date) of \($0.person)" }.joined(separator: ", "))
        }
        if query.kinds != nil || query.latest {
            notes.append(
                "terra: days have only what was asked for; a receiver would lose the rest of what it has of them")
        }
        return Written(lines: Self.lines("[", order.compactMap { bodies[$0]?.document }, "]"), notes: notes)
    }

    /// Whether readings of a day may be missing because they are outside the page or the period asked for.
    private func isCut(_ day: PersonDay) -> Bool {
        let times = page.readings.compactMap(\.time.instant)
        if page.more, let oldest = times.last, day.contains(oldest) { return true }
        let isContinued = query.cursor != nil || query.offset > 0
        if isContinued, let newest = times.first, day.contains(newest) { return true }
        if let from = query.from, day.start < from, from < day.end { return true }
        // A date as --to is the last microsecond of its day.
        if let to = query.to, day.start <= to, to.seconds < day.end.seconds - 1 { return true }
        return false
    }
}

/// What documents say of people, their devices and the gateway.
private struct People {
    private let histories: [String: ZoneHistory]
    private let own: ZoneHistory
    private let facts: GatewayFacts
    private let gateway: Gateway
    /// The account that ROOK's documents name.
    let clientUUID: String

    init(_ gateway: Gateway) async throws {
        self.gateway = gateway
        let store = gateway.store
        facts = GatewayFacts(id: try await store.gatewayID(), version: GatewayVersion.current)
        var histories: [String: ZoneHistory] = [:]
        for user in try await store.users() {
            histories[user.clientUserID] = ZoneHistory(try await store.zones(of: user.key))
        }
        let user = try await store.currentUser()
        guard let own = histories[user.clientUserID] else { throw StoreError.unknownTimeZone(user.timeZone) }
        (self.own, self.histories) = (own, histories)
        clientUUID = gateway.rookAccount ?? facts.id
    }

    func zones(of reading: Reading) -> ZoneHistory { reading.person.flatMap { histories[$0] } ?? own }

    func context(of reading: Reading) -> FormatContext {
        FormatContext(
            person: reading.person ?? "", zone: zones(of: reading).zone(at: reading.time.instant ?? reading.receivedAt),
            gateway: facts, device: gateway.catalogue.facts(of: reading.device.model))
    }
}
