import HealthReadings

/// One sample as a phone gives it.
public struct HealthSyncSample: Sendable, Hashable {
    /// HealthKit's id of the sample: a UUID.
    public var id: String
    /// The type's name in the app: `heartRate`. It may be one that this gateway doesn't know.
    public var type: String
    /// The value, in ``unit``; of a category the number that HealthKit has for it.
    public var value: ExactDecimal
    /// The unit, by HealthKit's name: `count/min`. A percentage is a fraction of 1 with the unit `%`.
    public var unit: String
    /// When it begins. The app sends whole seconds.
    public var start: Instant
    /// When it ends.
    public var end: Instant
    /// The name of the application or device that wrote it.
    public var sourceName: String
    /// Anything else, in the order in which it came.
    public var metadata: [Metadatum]
    /// The sample's JSON, as it came.
    public var json: [UInt8]

    /// One key of ``metadata``.
    public struct Metadatum: Sendable, Hashable {
        /// The key.
        public var key: String
        /// The value.
        public var value: String

        /// Makes it.
        public init(_ key: String, _ value: String) {
            self.key = key
            self.value = value
        }
    }

    /// A value of ``metadata``.
    public func metadata(_ key: String) -> String? { metadata.first { $0.key == key }?.value }
}

extension HealthSyncSample {
    /// Why a sample can't be read.
    struct Malformed: Error, Sendable {
        /// The key, and what was expected there.
        var reason: String
    }

    /// The longest text of a sample.
    private static let longestText = 1024
    /// The longest JSON of a sample: what is kept of two of them has to fit into one frame.
    private static let longestSample = ImportedSample.longestOriginals / 2

    /// Reads the JSON of one sample, as a phone sends it and as a frame keeps it; `nil` if it is no sample.
    public init?(json: [UInt8]) {
        guard json.count <= Self.longestSample, let node = try? JSONReader.read(json),
            let sample = try? HealthSyncSample(node, in: json)
        else { return nil }
        self = sample
    }

    init(_ node: JSONNode, in document: [UInt8]) throws(Malformed) {
        guard node.members != nil else { throw Malformed(reason: "expected an object") }
        guard node.range.count <= Self.longestSample else {
            throw Malformed(reason: "expected at most \(Self.longestSample) bytes")
        }
        func text(_ key: String) throws(Malformed) -> String {
            guard let text = node[key]?.text, text.utf8.count <= Self.longestText else {
                throw Malformed(reason: "\(key): expected a text")
            }
            return text
        }
        func time(_ key: String) throws(Malformed) -> Instant {
            guard let time = Instant(rfc3339: try text(key)) else { throw Malformed(reason: "\(key): expected a time") }
            return time
        }
        id = try text("id")
        guard !id.isEmpty else { throw Malformed(reason: "id: expected a text that is not empty") }
        type = try text("type")
        guard !type.isEmpty else { throw Malformed(reason: "type: expected a text that is not empty") }
        guard let value = node["value"]?.decimal else { throw Malformed(reason: "value: expected a number") }
        self.value = value
        unit = try text("unit")
        start = try time("startDate")
        end = try time("endDate")
        guard start <= end else { throw Malformed(reason: "endDate: it is before startDate") }
        sourceName = try text("sourceName")
        metadata = []
        if let node = node["metadata"] {
            guard let members = node.members else { throw Malformed(reason: "metadata: expected an object") }
            for member in members {
                guard let text = member.node.text else { throw Malformed(reason: "metadata: expected texts") }
                metadata.append(Metadatum(member.key, text))
            }
        }
        json = Array(document[node.range])
    }
}
