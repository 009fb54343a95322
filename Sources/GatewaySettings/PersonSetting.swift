import HealthReadings
import ReadingStore
import Yams

/// One of `users`: a person besides `user.client_user_id`, or that one again with a slot of their own.
public struct PersonSetting: Sendable, Hashable {
    /// The id of the person.
    public var clientUserID: String
    /// Their zone; nil: that of `user.client_user_id`.
    public var timeZone: String?
    /// What of which device is theirs.
    public var shares: [StorePerson.Share]
    /// How their reports are made.
    public var reports = ReportSetting()
    /// Where they were named.
    let origin: Settings.Origin

    /// Reads an entry of the list.
    /// - Throws: ``Problem`` with the place and what was expected.
    init(_ node: Node, _ path: String) throws {
        let line = node.mark?.line ?? 0
        origin = .file(path: path, line: line)
        func wrong(_ expected: String, _ found: Node?) -> Problem {
            let words = found?.scalar.map { "'\($0.string)'" } ?? (found == nil ? "nothing" : "something else")
            return Problem.configInvalid(
                "\(path):\(found?.mark?.line ?? line): users: expected \(expected), found \(words)")
        }
        guard let members = node.mapping else { throw wrong("client_user_id, time_zone, devices and reports", node) }
        for (name, _) in members
        where !["client_user_id", "time_zone", "devices", "reports"].contains(name.string ?? "") {
            throw wrong("client_user_id, time_zone, devices or reports", name)
        }
        guard let id = node["client_user_id"]?.scalar?.string, !id.isEmpty else {
            throw wrong("a client_user_id", node["client_user_id"])
        }
        clientUserID = id
        timeZone = node["time_zone"].flatMap { $0.null != nil ? nil : $0.scalar?.string }
        if let timeZone, ZoneRules.named(timeZone) == nil {
            throw wrong("a time zone such as Europe/Berlin", node["time_zone"])
        }
        shares = []
        if let node = node["reports"], node.null == nil { reports = try ReportSetting(node, wrong: wrong) }
        guard let devices = node["devices"], devices.null == nil else { return }
        guard let entries = devices.mapping else { throw wrong("devices as ADDRESS: slot", devices) }
        for (key, value) in entries {
            guard let address = key.scalar.flatMap({ DeviceAddress($0.string) }) else {
                throw wrong("a device's address such as C0:00:00:00:18:08", key)
            }
            let text = value.scalar?.string ?? ""
            let slot = UInt8(text)
            guard text == "all" || slot.map({ $0 < 255 }) == true else {
                throw wrong("the person's slot on the device, 0 to 254, or all", value)
            }
            shares.append(.init(address: address.bits, slot: slot))
        }
    }

    /// Both entries of one person; `nil` if each has another zone, or says otherwise how reports are made.
    func joined(with other: PersonSetting) -> PersonSetting? {
        func one<Value: Equatable>(_ former: Value, _ later: Value, without none: Value) -> Value? {
            if former == none || former == later { return later }
            return later == none ? former : nil
        }
        guard case .some(let zone) = one(timeZone, other.timeZone, without: nil),
            let reports = one(reports, other.reports, without: ReportSetting())
        else { return nil }
        var joined = self
        (joined.timeZone, joined.reports) = (zone, reports)
        joined.shares += other.shares.filter { !shares.contains($0) }
        return joined
    }

    /// Refuses two people who have the same slot: whose a reading is must not depend on their order.
    static func checkShares(of people: [PersonSetting]) throws(Problem) {
        var taken: [StorePerson.Share: String] = [:]
        for person in people {
            for share in person.shares {
                if let other = taken.updateValue(person.clientUserID, forKey: share) {
                    let device = DeviceAddress(bits: share.address, kind: .random)
                    throw Problem.configInvalid(
                        "\(Settings.place(person.origin))users: \(other) and \(person.clientUserID) both have slot "
                            + "\(share.slot.map(String.init) ?? "all") of \(device)",
                        hint: "give each person the slot they press on the device")
                }
            }
        }
    }

    /// The entry as `config show` prints it.
    var document: JSONValue {
        .object([
            "client_user_id": .string(clientUserID), "time_zone": .optional(timeZone),
            "devices": .object(
                shares.map { share in
                    .init(
                        DeviceAddress(bits: share.address, kind: .random).description,
                        share.slot.map { .integer(Int64($0)) } ?? .string("all"))
                }),
            "reports": reports.document ?? .null,
        ])
    }
}
