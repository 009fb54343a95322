/// One line of the control socket's answer: what the command prints, and how it ends.
enum ControlMessage: Codable, Sendable, Hashable {
    case data(String)
    case note(String)
    case problem(code: String, message: String, hint: String?, status: Int32)
    case done
}
