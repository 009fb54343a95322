/// The program's version.
public enum GatewayVersion {
    /// After Semantic Versioning.
    public static let current = "0.2.0"
}
