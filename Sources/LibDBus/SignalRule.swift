import CDBus
import Glibc

/// A match rule, made ready to be compared with signals where they lie.
final class SignalRule {
    /// The owner of the well-known name that has to be the sender.
    let owner: NameOwner?
    private let sender: CText?
    private let path: CText?
    private let pathNamespace: CText?
    private let interface: CText?
    private let member: CText?
    private let arg0: CText?
    private let arg0Path: CText?
    private let arg0Namespace: CText?

    init(_ match: DBusMatch, owner: NameOwner?) {
        self.owner = owner
        sender = owner == nil ? match.sender.map { CText($0) } : nil
        path = match.path.map { CText($0) }
        // Everything is below the root.
        pathNamespace = match.pathNamespace.flatMap { $0 == "/" ? nil : CText($0) }
        interface = match.interface.map { CText($0) }
        member = match.member.map { CText($0) }
        arg0 = match.arg0.map { CText($0) }
        arg0Path = match.arg0Path.map { CText($0) }
        arg0Namespace = match.arg0Namespace.map { CText($0) }
    }

    func matches(_ signal: borrowing DBusSignal) -> Bool {
        let header = signal.header
        if let member, !(member == header.member) { return false }
        if let interface, !(interface == header.interface) { return false }
        if let path, !(path == header.path) { return false }
        if let pathNamespace, !pathNamespace.isSelfOrAbove(header.path, separator: "/") { return false }
        if let sender, !(sender == header.sender) { return false }
        if let owner, !owner.isOwner(header.sender) { return false }
        if arg0 == nil, arg0Path == nil, arg0Namespace == nil { return true }
        guard let first = MessageHeader.firstText(of: signal.message) else { return false }
        if let arg0, first.type != .string || !(arg0 == first.text) { return false }
        if let arg0Path, !arg0Path.isPathMatch(first.text) { return false }
        if let arg0Namespace, first.type != .string || !arg0Namespace.isSelfOrAbove(first.text, separator: ".") {
            return false
        }
        return true
    }
}

/// A subscription at the event loop: where signals that meet any of its rules go.
class SignalRoute {
    /// What tells it from others.
    let identity: AnyObject
    var rules: [SignalRule] = []
    /// The match rules that are on the bus for it, or may be.
    var texts: [String] = []
    /// The well-known names whose changes of owner are among them.
    var followed: Set<String> = []
    /// Whether its rules were taken off the bus.
    var isRemoved = false

    init(_ identity: AnyObject) { self.identity = identity }

    /// Takes a signal that meets one of the rules.
    func receive(_ signal: borrowing DBusSignal) {}

    /// Hands over what this wake-up has brought.
    ///
    /// - Returns: whether there was anything.
    func release() -> Bool { false }

    /// Ends the subscription behind everything that has come.
    func end(with error: DBusError) {}
}

/// The owner of a well-known name, as the bus tells it.
final class NameOwner {
    private var unique: CText?

    func change(to unique: UnsafePointer<CChar>?) {
        self.unique = unique.flatMap { $0.pointee == 0 ? nil : CText($0) }
    }

    func change(to unique: String?) { self.unique = unique.map { CText($0) } }

    func isOwner(_ sender: UnsafePointer<CChar>?) -> Bool {
        guard let unique else { return false }
        return unique == sender
    }
}

extension CText {
    /// Whether a text is this, or begins with this and the separator.
    fileprivate func isSelfOrAbove(_ text: UnsafePointer<CChar>?, separator: Unicode.Scalar) -> Bool {
        guard let text, begins(text) else { return false }
        let next = text[count]
        return next == 0 || next == CChar(truncatingIfNeeded: separator.value)
    }

    /// Equal, or one is above the other and ends with a slash (D-Bus Specification, `arg0path`).
    fileprivate func isPathMatch(_ text: UnsafePointer<CChar>) -> Bool {
        let slash = CChar(truncatingIfNeeded: Unicode.Scalar("/").value)
        if self == text || (last == slash && begins(text)) { return true }
        let length = strlen(text)
        return length > 0 && text[length - 1] == slash && begins(with: text)
    }
}
