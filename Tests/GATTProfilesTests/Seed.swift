import Testing
@testable import GATTProfiles
