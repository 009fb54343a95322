/// Objects by where their paths are: what is wanted of an answer that tells of many, as
/// `org.freedesktop.DBus.ObjectManager.GetManagedObjects` does. Of the others no value is built.
public struct DBusObjects: Sendable, Hashable {
    private enum Place: Sendable, Hashable {
        case children
        case tree
    }

    private let path: String
    private let place: Place

    /// The objects right below a path: `/org/bluez/hci0` is one below `/org/bluez`.
    public static func children(of path: String) -> DBusObjects { DBusObjects(path: path, place: .children) }

    /// An object and all below it.
    public static func tree(at path: String) -> DBusObjects { DBusObjects(path: path, place: .tree) }

    /// Whether an object is one of them.
    public func contains(_ object: String) -> Bool {
        var object = object
        return object.withUTF8 { contains(UnsafeRawBufferPointer($0)) }
    }

    /// Whether the object whose path has these octets is one of them.
    func contains(_ object: UnsafeRawBufferPointer) -> Bool {
        let slash = UInt8(ascii: "/")
        let own = path == "/" ? "".utf8 : path.utf8
        guard object.starts(with: own) else { return false }
        let rest = object.dropFirst(own.count)
        return switch place {
        case .tree: path == "/" || rest.isEmpty || rest.first == slash
        case .children: rest.count > 1 && rest.first == slash && !rest.dropFirst().contains(slash)
        }
    }
}
