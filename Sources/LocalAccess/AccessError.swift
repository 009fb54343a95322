/// Why what guards the gateway's door cannot do its work.
public enum AccessError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The certificate's file can be neither read nor written, or is damaged.
    case cannotKeepCertificate(path: String, reason: String)
    /// The file of clients and of the audit log cannot be used.
    case cannotKeepClients(path: String, reason: String)
    /// There is no room for the file of clients to grow.
    case diskFull(path: String)

    /// The published code.
    public var code: String {
        switch self {
        case .cannotKeepCertificate: "certificate_unusable"
        case .cannotKeepClients: "access_unusable"
        case .diskFull: "disk_full"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .cannotKeepCertificate(let path, let reason): "the gateway's certificate in \(path): \(reason)"
        case .cannotKeepClients(let path, let reason): "the list of clients in \(path): \(reason)"
        case .diskFull(let path): "the list of clients in \(path) cannot be written: the disk is full"
        }
    }

    /// What to do next.
    public var hint: String {
        switch self {
        case .cannotKeepCertificate:
            "if it is lost, remove the file: the gateway makes another, and every client has to be paired again"
        case .cannotKeepClients:
            "if it is lost, remove the file: every client has to be paired again. It contains no readings"
        case .diskFull: "free space on this disk"
        }
    }
}
